// Every parser that meets the network, on inputs that nobody meant to send: typed errors only, and constant memory.
//
//   npm test -- test/fuzz                                    a few inputs each
//   FUZZ_INPUTS=1000000 npm test -- test/fuzz                the long form; its figures are printed
//   FUZZ_SEED=7 FUZZ_ONLY=templates npm test -- test/fuzz    other inputs; some parsers
//
// An input that fails is named by its number and the seed, and is the same each time.
import { expect, test } from '@jest/globals'
import { type Figures, fuzz } from '../support/fuzz/fuzz.js'
import { inForm } from '../support/tier.js'
import { allTargets } from './targets.js'

const INPUTS = Number(process.env.FUZZ_INPUTS ?? inForm(20, 1000))
const SEED = Number(process.env.FUZZ_SEED ?? 1)
const ONLY = process.env.FUZZ_ONLY ?? ''
/** So many inputs go both ways: some are read, others refused. */
const FEWEST = 10
const HOUR = 3_600_000
/** Bytes that the heap may differ by: what is remembered has bounds, and none of them is near this. */
const GROWTH = 4_194_304

const names = [
  'frames of a connection',
  'messages of the stream',
  'signed reports, V2 to V14',
  'report contexts',
  'verification of signatures',
  'answers: one report',
  'answers: the catalogue',
  'answers: bulk',
  'answers: pages',
  'answers: feeds',
  'refusals: status, Date, Retry-After, body',
  'the origins header',
  'Retry-After',
  'TDH2: ciphertexts',
  'TDH2: decryption shares',
  'TDH2: public keys',
  'TDH2: private shares',
  'TDH2: master secrets',
  'confidential requests',
  'confidential responses',
  'durations',
  'templates',
  'base64',
  'the enclave’s side: envelopes',
  'the caller’s side: answers',
  'the caller’s side: boot keys',
  'sealed requests',
  'sealed answers',
  'encrypted bodies',
  'holders of a vault: requests of a caller',
  'holders of a vault: sealed requests',
  'cursor files',
]

const targets = allTargets()

/** One line of a table. */
function describe({
  name,
  inputs,
  parsed,
  refused,
  heapGrowth,
  slowest,
  seconds,
}: Figures): string {
  const kilobytes = Math.round((heapGrowth ?? 0) / 1024)
  return (
    `| ${name} | ${inputs} | ${parsed} | ${refused} | ${kilobytes} kB | ` +
    `${slowest?.ms.toFixed(2)} ms for ${slowest?.size} (${slowest?.number}) | ${seconds.toFixed(0)} s |`
  )
}

test('each parser has its place in the list', async () => {
  expect([...(await targets).keys()]).toEqual(names)
})

test.each(names.filter(name => new RegExp(ONLY).test(name)))(
  '%s: read, or refused with a typed error, in constant memory',
  async name => {
    const target = (await targets).get(name)
    if (target === undefined) throw new Error(`there is no target ${name}`)
    const inputs = Math.max(Math.min(INPUTS, FEWEST), Math.ceil(INPUTS * (target.share ?? 1)))
    const figures = await fuzz(target, inputs, SEED)
    if (process.env.FUZZ_INPUTS !== undefined) console.log(describe(figures))
    expect(figures.parsed + figures.refused).toBe(inputs)
    // Both ways are gone: what is never read, or always, is not tested.
    expect(figures.parsed).toBeGreaterThan(0)
    if (target.isTotal !== true) expect(figures.refused).toBeGreaterThan(0)
    if (figures.heapGrowth !== undefined) expect(figures.heapGrowth).toBeLessThan(GROWTH)
  },
  2 * HOUR,
)
