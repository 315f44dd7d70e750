// A program of its own, because globals are slow in the sandbox of a test: times both decoders in alternating rounds, and
// prints how many times as long the official one took in each. Its argument is a JSON list of reports.
import { decodeReport as decodeOfficially } from '@chainlink/data-streams-sdk'
import { decodeReport } from '../../plugins/decoders/versions.js'

type Decode = (fullReport: string, feedID: string) => unknown

const ROUNDS = 41
const inputs: { fullReport: string; feedID: string }[] = JSON.parse(process.argv[2] ?? '[]')

/** Nanoseconds a decode takes, over so many times through the reports. */
function cost(decode: Decode, times: number): number {
  const start = process.hrtime.bigint()
  for (let time = 0; time < times; time++) {
    for (const { fullReport, feedID } of inputs) decode(fullReport, feedID)
  }
  return Number(process.hrtime.bigint() - start) / (times * inputs.length)
}

cost(decodeOfficially, 20)
cost(decodeReport, 2000)
// A round is over in milliseconds, so that what else the machine does hits both sides, or a few rounds only.
const ratios = Array.from({ length: ROUNDS }, () => {
  const before = cost(decodeOfficially, 1)
  const ours = cost(decodeReport, 100)
  const after = cost(decodeOfficially, 1)
  return (before + after) / 2 / ours
})
process.stdout.write(JSON.stringify(ratios))
