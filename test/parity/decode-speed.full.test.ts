import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { decodeReport as decodeOfficially } from '@chainlink/data-streams-sdk'
import { expect, test } from '@jest/globals'
import { buildSync } from 'esbuild'
import fc from 'fast-check'
import { decodeReport } from '../../plugins/decoders/versions.js'
import { feedVersion } from '../../report/feed-id.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeReport,
  fieldsOf,
  type RandomReport,
  reports,
  versions,
} from '../support/report/report-arbitrary.js'

/** How many times as long the official SDK takes, ascending, a number for each round. */
function measure(): number[] {
  const { outputFiles } = buildSync({
    entryPoints: [join(__dirname, 'decode-rounds.ts')],
    bundle: true,
    platform: 'node',
    write: false,
  })
  const inputs = publishedReports.filter(report => report.version === 'V3')
  const ratios: number[] = JSON.parse(
    execFileSync(process.execPath, ['-', JSON.stringify(inputs)], {
      input: outputFiles[0]?.text,
      encoding: 'utf8',
    }),
  )
  return ratios.sort((one, other) => one - other)
}

test('decoding a report of version 3 costs at most a hundredth of what the official SDK takes', () => {
  const ratios = measure()
  const median = ratios[Math.floor(ratios.length / 2)] as number
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)]
  console.log(
    `decoding V3: the official SDK takes ${median.toFixed()} times as long (${least.toFixed()} to ${most.toFixed()} in ${ratios.length} rounds)`,
  )
  expect(median).toBeGreaterThanOrEqual(100)
})

/** Fields that we decode exactly, and the official SDK as numbers. */
const inexact: Readonly<Record<number, readonly string[]>> = {
  12: ['navDate'],
  13: ['askVolume', 'bidVolume'],
}

/** What the official SDK says of a report, and what we say of the same fields. */
function sharedFields(fullReport: string, feedID: string): readonly [unknown, unknown] {
  const official = decodeOfficially(fullReport, feedID)
  const ours = decodeReport(fullReport, feedID) as unknown as Readonly<Record<string, unknown>>
  const rounded = inexact[feedVersion(feedID)] ?? []
  const shared = Object.keys(official).map(name => [
    name,
    rounded.includes(name) ? Number(ours[name]) : ours[name],
  ])
  return [official, Object.fromEntries(shared)]
}

test('published reports have the values that the official SDK reads', () => {
  for (const { fullReport, feedID } of publishedReports) {
    const [official, ours] = sharedFields(fullReport, feedID)
    expect(ours).toStrictEqual(official)
  }
})

/** The official SDK refuses statuses it has no name for, and knows of version 4 that a status is a byte. */
function withKnownStatuses({ version, values, ...report }: RandomReport): RandomReport {
  const known = fieldsOf(version, 's').map(({ name }, index) => {
    const value = values[index]
    if (name === 'marketStatus') return Number(value) % 3
    return name === 'ripcord' ? Number(value) % 2 : value
  })
  return { version, values: known, ...report }
}

test.each(versions.filter(version => version < 14))(
  'random reports of version %i have the values that the official SDK reads, within a number’s precision',
  version => {
    const fields = fieldsOf(version, 's')
    const agree = ({ feedID, values, envelope }: RandomReport): void => {
      const [official, ours] = sharedFields(encodeReport(fields, values, envelope), feedID)
      expect(ours).toStrictEqual(official)
    }
    fc.assert(fc.property(reports(version, 's').map(withKnownStatuses), agree), { numRuns: 200 })
  },
)
