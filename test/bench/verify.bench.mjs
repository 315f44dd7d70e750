// Verifying the signatures of reports: how many in a second, in Node and in a page, and how long the event loop is held up meanwhile.
import { readFileSync } from 'node:fs'
import { NoChromium } from '../support/chromium.mjs'
import { runInPage } from './in-page.mjs'
import { alternate, ratio, spread } from './rounds.mjs'
import { startProcess } from './rpc.mjs'
import { atLeast, atMost, perSecond, printTable, short } from './table.mjs'

const pace = 1000
const forMs = 1500
const rounds = 5
const ways = {
  'noble, in the loop': { curveLibrary: 'noble', workers: 0 },
  'noble, one thread': { curveLibrary: 'noble', workers: 1 },
  'noble, two threads': { curveLibrary: 'noble', workers: 2 },
  'wasm, in the loop': { curveLibrary: 'wasm', workers: 0 },
  'wasm, one thread': { curveLibrary: 'wasm', workers: 1 },
  'wasm, two threads': { curveLibrary: 'wasm', workers: 2 },
  'secp256k1, in the loop': { curveLibrary: 'secp256k1', workers: 0 },
  'secp256k1, one thread': { curveLibrary: 'secp256k1', workers: 1 },
  'secp256k1, two threads': { curveLibrary: 'secp256k1', workers: 2 },
}
const paced = {
  idle: {},
  'secp256k1, as it is by default': { curveLibrary: 'secp256k1' },
  'secp256k1, in the loop': { curveLibrary: 'secp256k1', workers: 0 },
}

/** The most milliseconds that two signatures may take by WebAssembly, and the least that noble takes more. */
const goals = { ms: 0.7, overNoble: 5 }

function printRates(title, rates) {
  printTable(
    title,
    ['reports/s', 'least to most'],
    Object.entries(rates).map(([way, list]) => {
      const { median, min, max } = spread(list)
      return [way, perSecond(median), `${perSecond(min)} to ${perSecond(max)}`]
    }),
  )
}

const msOf = rates => spread(rates.map(rate => 1000 / rate))

/** Rates in a page of Chromium by curve library; undefined where there is none. */
async function measurePage() {
  const file = new URL('../vectors/published-reports.json', import.meta.url)
  const { reports } = JSON.parse(readFileSync(file, 'utf8'))
  try {
    return await runInPage('./verify-page.js', {
      reports: reports.map(({ fullReport }) => fullReport),
      signers: { signers: [...new Set(reports.flatMap(({ signers }) => signers))], f: 1 },
      ways: ['wasm', 'noble'],
      rounds,
      forMs,
    })
  } catch (error) {
    if (!(error instanceof NoChromium)) throw error
    console.log(`a page is left out: ${error.message}\n`)
    return undefined
  }
}

/** What WebAssembly takes, and how many times as much noble takes. */
function compareWASM(where, wasm, noble) {
  const told = rates => perSecond(spread(rates).median)
  return [
    {
      work: `time to verify two signatures with WebAssembly ${where}`,
      ...atMost(goals.ms, msOf(wasm), ' ms'),
      detail: told(wasm),
    },
    {
      work: `speed of verifying two signatures ${where}: WebAssembly compared with noble`,
      ...atLeast(goals.overNoble, ratio(wasm, noble)),
      detail: `WebAssembly ${told(wasm)}; noble ${told(noble)}`,
    },
  ]
}

export default async function bench() {
  const { ask, stop } = startProcess('verify-process.mjs')
  const rates = await alternate(Object.keys(ways), { rounds }, way =>
    ask('rate', { ...ways[way], forMs }),
  )
  printRates('reports of two signatures verified', rates)

  const delays = await alternate(Object.keys(paced), { rounds }, way =>
    ask('delay', { ...paced[way], pace, forMs }),
  )
  stop()
  const of = (way, name) => spread(delays[way].map(each => each[name]))
  printTable(
    `event-loop delay at ${pace} reports/s, sampled every ms`,
    ['p50 ms', 'p99 ms', 'least to most', 'max ms', 'behind at the end'],
    Object.keys(paced).map(way => {
      const { median, min, max } = of(way, 'p99')
      const spreadOf = `${short(min)} to ${short(max)}`
      const middle = name => short(of(way, name).median)
      return [way, middle('p50'), short(median), spreadOf, middle('max'), middle('behind')]
    }),
  )
  const inPage = await measurePage()
  if (inPage !== undefined) printRates('the same in a page of Chromium, one by one', inPage)

  const say = way => perSecond(spread(rates[way]).median)
  const [byDefault, inLoop] = Object.keys(paced).slice(1)
  return [
    {
      work: 'speed of verifying two signatures in the event loop: `secp256k1` compared with noble',
      ...atLeast(undefined, ratio(rates['secp256k1, in the loop'], rates['noble, in the loop'])),
      detail: `\`secp256k1\` ${say('secp256k1, in the loop')}; noble ${say('noble, in the loop')}`,
    },
    ...compareWASM('in the event loop', rates['wasm, in the loop'], rates['noble, in the loop']),
    {
      work: 'speed of verifying two signatures in the event loop: `secp256k1` compared with WebAssembly',
      ...atMost(5, ratio(rates['secp256k1, in the loop'], rates['wasm, in the loop']), ' times'),
      detail: `\`secp256k1\` ${say('secp256k1, in the loop')}; WebAssembly ${say('wasm, in the loop')}`,
    },
    ...(inPage === undefined ? [] : compareWASM('in Chromium', inPage.wasm, inPage.noble)),
    {
      work: 'delay of the event loop, 99th percentile, at 1,000 verified reports/s',
      ...atMost(10, of(byDefault, 'p99'), ' ms'),
      detail: `an idle process ${short(of('idle', 'p99').median)} ms; ${short(of(inLoop, 'p99').median)} ms if the event loop verifies`,
    },
  ]
}
