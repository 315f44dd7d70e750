// WebAssembly that is forbidden, that can't be loaded, or that stops while it recovers a signer. Each test has its own modules.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { readVerifyOptions, type VerifyOptions } from '../../../plugins/verify/options.js'
import { addresses, makeReport, reportOf, signers } from '../../support/report/signed-reports.js'
import { inForm } from '../../support/tier.js'

const built = join(__dirname, '../../../dist')
const made = makeReport()
const who = addresses.slice(0, 3)
const realWebAssembly = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly') ?? {}

beforeEach(() => {
  jest.resetModules()
  jest.doMock('../../../platform/secp256k1.js', () => ({
    loadSecp256k1: async () => undefined,
  }))
})
afterEach(() => {
  Object.defineProperty(globalThis, 'WebAssembly', realWebAssembly)
  jest.dontMock('../../../plugins/verify/wasm.js')
})

const setWebAssembly = (value: unknown): unknown =>
  Object.defineProperty(globalThis, 'WebAssembly', { ...realWebAssembly, value })

/** WebAssembly of a realm that forbids to compile it, as the policy of a page does. */
const forbidden = (): unknown =>
  runInContext('WebAssembly', createContext({}, { codeGeneration: { wasm: false } }))

const platforms: readonly (readonly [string, () => void, RegExp])[] = [
  ['there is none', () => setWebAssembly(undefined), /the platform has no WebAssembly/],
  [
    'it is forbidden',
    () => setWebAssembly(forbidden()),
    /the platform does not compile WebAssembly: .*disallowed/,
  ],
  [
    'it can’t be loaded',
    () =>
      jest.doMock('../../../plugins/verify/wasm.js', () => {
        throw new Error('a bundle has lost this part')
      }),
    /could not be loaded as WebAssembly: a bundle has lost this part/,
  ],
  [
    'it can’t be instantiated',
    () =>
      jest.doMock('../../../plugins/verify/wasm.js', () => ({
        createRecover: async () => {
          throw new RangeError('out of memory')
        },
      })),
    /could not be loaded as WebAssembly: out of memory/,
  ],
]

test.each(platforms)('where %s, noble verifies, and its note says why', async (_, set, reason) => {
  set()
  const { verifyReport } = await import('../../../index.js')
  const { loadCurveLibrary } = await import('../../../plugins/verify/curve-libraries.js')
  expect(await verifyReport(made.fullReport, { signers })).toMatchObject({ signers: who })
  expect(await loadCurveLibrary('auto')).toMatchObject({
    name: 'noble',
    note: expect.stringMatching(
      new RegExp(`${reason.source}.*, and the package secp256k1, .* is not installed$`),
    ),
  })
  await expect(
    verifyReport(made.fullReport, { signers, curveLibrary: 'wasm' }),
  ).rejects.toMatchObject({
    reason: 'curve-library-unavailable',
    message: expect.stringMatching(
      new RegExp(`curveLibrary wasm cannot be used: .*${reason.source}`),
    ),
  })
})

test('a platform that forbids WebAssembly does not load the library', async () => {
  setWebAssembly(forbidden())
  let isLoaded = false
  jest.doMock('../../../plugins/verify/wasm.js', () => {
    isLoaded = true
    return {}
  })
  const { loadCurveLibrary } = await import('../../../plugins/verify/curve-libraries.js')
  expect(await loadCurveLibrary('auto')).toMatchObject({ name: 'noble' })
  expect(isLoaded).toBe(false)
})

/** Has the library stop at its nth recovery, and answer wrongly from then on. */
function stopAt(nth: number): () => number {
  let calls = 0
  const { instantiate, RuntimeError } = WebAssembly
  const changed = async (...args: Parameters<typeof instantiate>): Promise<unknown> => {
    const { instance } = await instantiate(...args)
    const { _secp256k1_ecdsa_recover: recover } = instance.exports
    const exports = {
      ...instance.exports,
      _secp256k1_ecdsa_recover(...places: number[]) {
        if (++calls === nth) throw new RuntimeError('unreachable')
        return calls > nth ? 0 : recover?.(...places)
      },
    }
    return { instance: { exports } }
  }
  setWebAssembly({
    Module: WebAssembly.Module,
    Memory: WebAssembly.Memory,
    Table: WebAssembly.Table,
    instantiate: changed,
  })
  return () => calls
}

declare const WebAssembly: {
  readonly Module: unknown
  readonly Memory: unknown
  readonly Table: unknown
  readonly RuntimeError: new (message: string) => Error
  instantiate(
    bytes: unknown,
    imports: unknown,
  ): Promise<{
    instance: { exports: Record<string, ((...places: number[]) => number) | undefined> }
  }>
}

const given = Array.from({ length: 20 }, (_, index) =>
  reportOf(makeReport({ sequenceNumber: index, by: index === 4 ? [0, 9, 2] : [0, 1, 2] })),
)
const wanted = given.map((_, index) => (index === 4 ? 'unknown-signer' : undefined))

/** Checks all reports at once. Returns why each is rejected, and the lines of the log. */
async function checkAll(options: Partial<VerifyOptions>) {
  const lines: [string, string][] = []
  const log = {
    info: (line: string) => void lines.push(['info', line]),
    warn: (line: string) => void lines.push(['warn', line]),
  }
  const { Verifier } = await import('../../../plugins/verify/verifier.js')
  const verifier = new Verifier(readVerifyOptions({ signers, ...options }), log)
  const settled: number[] = []
  const reasons = await Promise.all(
    given.map(
      (report, index) =>
        new Promise<string | undefined>(resolve =>
          verifier.check(report, failure => {
            settled.push(index)
            resolve((failure as { reason?: string } | undefined)?.reason)
          }),
        ),
    ),
  )
  const facts = verifier.facts()
  verifier.end()
  expect(settled).toHaveLength(given.length)
  return { reasons, lines, facts }
}

test.each([2, 31, 1, 5].slice(0, inForm(2, 4)))(
  'stops at recovery %i in the loop: noble goes on, and no report is lost',
  async nth => {
    const calls = stopAt(nth)
    const { reasons, lines, facts } = await checkAll({ workers: 0 })
    expect(reasons).toEqual(wanted)
    expect(calls()).toBe(nth)
    expect(facts).toMatchObject({ curveLibrary: 'noble', threads: 0 })
    expect(facts.reportsPerSecond).toBeGreaterThan(0)
    // A report has three signatures, so up to the third recovery noble is the first to finish one.
    const said = nth <= 3 ? ['info noble'] : ['warn noble']
    expect(lines.map(([level, line]) => `${level} ${line.split(' ', 1)}`)).toEqual(
      nth > 20 ? ['info wasm', ...said] : said,
    )
    expect(lines.at(-1)?.[1]).toMatch(
      /: libsecp256k1 has failed as WebAssembly: unreachable, and the package/,
    )
  },
)

test('stops while a single report is verified: noble verifies it, and those after it', async () => {
  const calls = stopAt(2)
  const { verifyReport } = await import('../../../index.js')
  const results = await Promise.all([1, 2, 3].map(() => verifyReport(made.fullReport, { signers })))
  for (const { signers: found } of results) expect(found).toEqual(who)
  expect(calls()).toBe(2)
})

/** The first of them are before, amid and after the loading. */
const steps = [0, 3, 11, 1, 2, 4, 5, 6, 7, 8, 9, 10]
test.each(steps.slice(0, inForm(3, steps.length)))(
  'stops %i steps after another caller began to load it: no later caller gets it',
  async taken => {
    stopAt(1)
    const { loadCurveLibrary, loadWasm } = await import(
      '../../../plugins/verify/curve-libraries.js'
    )
    const recover = await loadWasm()
    if (typeof recover !== 'function') throw new Error(recover)
    const word = new Uint8Array(32).fill(1)
    const loading = loadCurveLibrary('auto')
    for (let step = 0; step < taken; step++) await undefined
    expect(() => recover(word, word, word, 0)).toThrow('the curve library has failed')
    await loading
    expect(await loadCurveLibrary('auto')).toMatchObject({ name: 'noble' })
  },
)

test('with curveLibrary: wasm a library that stops is an error that says so, and nothing passes', async () => {
  stopAt(2)
  const { verifyReport } = await import('../../../index.js')
  for (let round = 0; round < 2; round++)
    await expect(
      verifyReport(made.fullReport, { signers, curveLibrary: 'wasm' }),
    ).rejects.toMatchObject({
      reason: 'curve-library-unavailable',
      message: expect.stringContaining('libsecp256k1 has failed as WebAssembly: unreachable'),
    })
})

test('stops in a thread: the thread goes on with noble, in order, and is not replaced', async () => {
  const program = `
    const { instantiate } = WebAssembly
    WebAssembly.instantiate = async (...args) => {
      const { instance } = await instantiate(...args)
      let calls = 0
      const _secp256k1_ecdsa_recover = (...places) => {
        if (++calls >= 8) throw new WebAssembly.RuntimeError('unreachable')
        return instance.exports._secp256k1_ecdsa_recover(...places)
      }
      return { instance: { exports: { ...instance.exports, _secp256k1_ecdsa_recover } } }
    }
    const modules = require('node:module')
    const { _load: load } = modules
    modules._load = function (name, ...rest) {
      if (name === 'secp256k1/bindings.js') throw new Error('not installed')
      return load.call(this, name, ...rest)
    }
    require(${JSON.stringify(`${built}/cjs/plugins/verify/thread.js`)})
  `
  let started = 0
  const worker = () => {
    started++
    return new Worker(program, { eval: true })
  }
  const { reasons, lines, facts } = await checkAll({ workers: 1, worker })
  expect(reasons).toEqual(wanted)
  expect(started).toBe(1)
  expect(facts).toMatchObject({ curveLibrary: 'noble', threads: 1 })
  expect(lines.at(-1)?.[1]).toMatch(/^noble in 1 thread .*unreachable/)
})

test('Node without WebAssembly verifies all the same', () => {
  const program = `
    const { verifyReport } = require(${JSON.stringify(`${built}/cjs/index.js`)})
    verifyReport(${JSON.stringify(made.fullReport)}, { signers: ${JSON.stringify(signers)}, curveLibrary: 'auto' })
      .then(({ signers }) => console.log(typeof WebAssembly, String(signers)))
  `
  const { stdout } = spawnSync(process.execPath, ['--jitless', '-e', program], { encoding: 'utf8' })
  expect(stdout).toBe(`undefined ${who}\n`)
})
