import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import * as threads from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import {
  readVerifyOptions,
  type SignerSet,
  type VerifyOptions,
} from '../../../plugins/verify/options.js'
import { Verifier } from '../../../plugins/verify/verifier.js'
import type { Report } from '../../../report/report.js'
import type { ReportVerificationError } from '../../../report/verifier.js'
import {
  addresses,
  isNativeHere,
  makeReport,
  reportOf,
  signers,
  TIME,
} from '../../support/report/signed-reports.js'
import { inForm } from '../../support/tier.js'
import { until } from '../../support/waiting.js'

const built = join(__dirname, '../../../dist')
const whole = reportOf(makeReport())
const forged = reportOf(makeReport({ by: [0, 9, 2] }))
const mirrored = reportOf(makeReport({ by: [0, 1] }))
const many = Array.from({ length: 12 }, (_, index) =>
  reportOf(
    makeReport({ sequenceNumber: index, by: [index % 7, (index + 1) % 7, (index + 2) % 7] }),
  ),
)

let verifier: Verifier
const make = (options: Partial<VerifyOptions> = {}): Verifier => {
  verifier = new Verifier(readVerifyOptions({ signers, ...options }))
  return verifier
}
afterEach(() => verifier?.end())

const check = (report: Report): Promise<ReportVerificationError | undefined> =>
  new Promise(resolve =>
    verifier.check(report, failure => resolve(failure as ReportVerificationError | undefined)),
  )

/** Collects the threads that are started from now on. */
function watchThreads(): threads.Worker[] {
  const started: threads.Worker[] = []
  const watched = threads.Worker.prototype.postMessage
  threads.Worker.prototype.postMessage = function postMessage(
    this: threads.Worker,
    ...args: [unknown]
  ) {
    if (!started.includes(this)) started.push(this)
    return watched.apply(this, args)
  } as typeof watched
  restore = () => {
    threads.Worker.prototype.postMessage = watched
  }
  return started
}
let restore: () => void = () => undefined
afterEach(() => restore())

/** The first rows hold the promise: each place, and each kind of library. */
const ways: readonly (readonly [string, Partial<VerifyOptions>])[] = [
  ['noble, in the loop', { curveLibrary: 'noble', workers: 0 }],
  ['wasm, in threads', { curveLibrary: 'wasm', workers: 2 }],
  ['as it is by default', isNativeHere ? {} : { curveLibrary: 'wasm' }],
  ['noble, in threads', { curveLibrary: 'noble', workers: 2 }],
  ['wasm, in the loop', { curveLibrary: 'wasm', workers: 0 }],
  ...(isNativeHere
    ? ([
        ['secp256k1, in the loop', { curveLibrary: 'secp256k1', workers: 0 }],
        ['secp256k1, in threads', { curveLibrary: 'secp256k1', workers: 2 }],
      ] as const)
    : []),
]

describe.each(ways.slice(0, inForm(3, ways.length)))('%s', (_, options) => {
  test('each report is settled once, whatever it is', async () => {
    make(options)
    const counts = new Map<Report, (string | undefined)[]>()
    const given = [...many, forged, mirrored, whole]
    for (const report of given) {
      counts.set(report, [])
      void check(report).then(failure => counts.get(report)?.push(failure?.reason))
    }
    expect([...counts.values()].flat()).toEqual([])
    await until(() => [...counts.values()].every(each => each.length > 0))
    expect([...counts.values()].flat()).toEqual([
      ...many.map(() => undefined),
      'unknown-signer',
      'too-few-signatures',
      undefined,
    ])
  })

  test('a cancelled check does not settle', async () => {
    make(options)
    const settled: Report[] = []
    const [first, second] = [whole, forged].map(report =>
      verifier.check(report, () => settled.push(report)),
    )
    const short = verifier.check(mirrored, () => settled.push(mirrored))
    first?.()
    short?.()
    await until(() => settled.length > 0)
    second?.()
    expect(await check(whole)).toBeUndefined()
    expect(settled).toEqual([forged])
  })

  test('a failure has its report', async () => {
    make(options)
    expect(await check(forged)).toMatchObject({ reason: 'unknown-signer', report: forged })
  })
})

test('the envelope is compared with the signed fields', async () => {
  make({ workers: 0, checkExpiry: true, now: () => (TIME + 86_405) * 1000 + 999 })
  const made = makeReport()
  expect(await check(reportOf(made))).toBeUndefined()
  expect(await check(reportOf(made, { observationsTimestamp: TIME + 1 }))).toMatchObject({
    reason: 'wrong-time',
  })
  expect(await check(reportOf(made, { validFromTimestamp: TIME }))).toMatchObject({
    reason: 'wrong-time',
  })
  const elsewhere = { ...made, feedID: `0x0003${'01'.repeat(30)}` }
  expect(await check(reportOf(elsewhere))).toMatchObject({ reason: 'wrong-feed' })
  const early = makeReport({ expiresAt: TIME + 86_399 })
  expect(await check(reportOf(early))).toMatchObject({ reason: 'expired' })
  expect(await check(reportOf({ ...made, fullReport: `${made.fullReport}00` }))).toMatchObject({
    reason: 'malformed',
  })
})

test('reports of a configuration that is new wait for its signers', async () => {
  let calls = 0
  make({
    workers: 0,
    signers: async () => {
      calls++
      return signers
    },
  })
  expect(await Promise.all(many.map(check))).toEqual(many.map(() => undefined))
  expect(calls).toBe(1)
})

test('a cancelled check waits for no signers', async () => {
  let answer: (set: SignerSet) => void = () => undefined
  const origins: unknown[] = []
  make({
    workers: 0,
    signers: (_, { origin }) => {
      origins.push(origin)
      return new Promise(resolve => (answer = resolve))
    },
  })
  const settled: string[] = []
  // As many as may wait.
  const made = makeReport()
  const callOffs = Array.from({ length: 4096 }, () =>
    verifier.check(reportOf(made), () => settled.push('called off')),
  )
  for (const callOff of callOffs) callOff?.()
  void check(forged).then(failure => settled.push(`${failure?.reason}`))
  await until(() => origins.length > 0)
  answer(signers)
  await until(() => settled.length > 0)
  expect(settled).toEqual(['unknown-signer'])
  expect(origins).toEqual(['one'])
})

test('wrong options are rejected at once', () => {
  for (const [options, message] of [
    [{ signers: { ...signers, f: 0 } }, 'signers.f must be at least 1'],
    [{ workers: -1 }, 'workers must be at least 0'],
    [{ workers: 1.5 }, 'workers must be a whole number'],
    [{ curveLibrary: 'elliptic' }, 'curveLibrary must be'],
    [{ quorum: 1 }, 'quorum must be'],
    [{ now: 1 }, 'now must be a function'],
    [{ threads: 1 }, "unknown option 'threads' of verify"],
  ] as const)
    expect(() =>
      readVerifyOptions(Object.assign({ signers }, options) as unknown as VerifyOptions),
    ).toThrow(message)
})

describe('threads', () => {
  test('are started with the first report, and share the work', async () => {
    const started = watchThreads()
    make({ curveLibrary: 'noble', workers: 2 })
    expect(started.length).toBe(0)
    await Promise.all(many.map(check))
    expect(started.length).toBe(2)
  })

  test('that crash leave no report unverified', async () => {
    const started = watchThreads()
    make({ curveLibrary: 'noble', workers: 2 })
    await check(whole)
    const made = Array.from({ length: 12 }, (_, index) =>
      reportOf(makeReport({ sequenceNumber: index })),
    )
    const checking = Promise.all([...many, ...made, forged].map(check))
    await until(() => started.length === 2)
    for (const thread of [...started]) await thread.terminate()
    const reasons = (await checking).map(failure => failure?.reason)
    expect(reasons).toEqual(
      [...many, ...made].map(() => undefined as string | undefined).concat('unknown-signer'),
    )
    expect(started.length).toBeGreaterThan(2)
  })

  test('that crash again and again are replaced by the caller’s thread', async () => {
    const started = watchThreads()
    make({ curveLibrary: 'noble', workers: 1 })
    const killed = new Set<threads.Worker>()
    const killing = setInterval(() => {
      for (const thread of started) if (!killed.has(thread)) void thread.terminate()
      for (const thread of started) killed.add(thread)
    }, 1)
    try {
      expect(await check(whole)).toBeUndefined()
      expect(await check(forged)).toMatchObject({ reason: 'unknown-signer' })
    } finally {
      clearInterval(killing)
    }
    expect(started.length).toBe(2)
  })

  test('that Node does not permit are replaced by the caller’s thread', async () => {
    const flag = process.allowedNodeEnvironmentFlags.has('--permission')
      ? '--permission'
      : '--experimental-permission'
    const program = `
      const { verify } = require('${built}/cjs/plugins/verify/index.js')
      const options = { signers: ${JSON.stringify(signers)}, workers: 2 }
      let verifier
      verify(options).setup({ stack: [], place() {}, has: () => false, defer() {}, provide(_key, made) { verifier ??= made } })
      for (const report of ${JSON.stringify([whole, forged])})
        verifier.check(report, failure => {
          console.log(failure?.reason)
          verifier.check(report, again => console.log(again?.reason))
        })
    `
    const { out, code } = await run([flag, '--allow-fs-read=*', '--no-warnings', '-e', program])
    expect(out.split('\n').sort()).toEqual([
      '',
      'undefined',
      'undefined',
      'unknown-signer',
      'unknown-signer',
    ])
    expect(code).toBe(0)
  })

  test('end with the verifier, which fails pending checks', async () => {
    const started = watchThreads()
    make({ curveLibrary: 'noble', workers: 2 })
    const settled: unknown[] = []
    for (const report of many) verifier.check(report, failure => settled.push(failure))
    await until(() => started.length === 2)
    const gone = started.map(thread => new Promise(resolve => thread.once('exit', resolve)))
    verifier.end()
    await Promise.all(gone)
    verifier.check(whole, failure => settled.push(failure))
    await new Promise(resolve => setTimeout(resolve, 50))
    expect(settled).toHaveLength(many.length + 1)
    expect(settled.at(-1)).toMatchObject({ code: 'CLOSED' })
  })

  test('a callback that throws does not stop the others', async () => {
    const program = `
      const { verify } = require('${built}/cjs/plugins/verify/index.js')
      const options = { signers: ${JSON.stringify(signers)}, workers: +process.argv[1], curveLibrary: 'noble' }
      let verifier
      verify(options).setup({ stack: [], place() {}, has: () => false, defer() {}, provide(_key, made) { verifier ??= made } })
      process.on('uncaughtException', error => console.log(error.message))
      const report = ${JSON.stringify(whole)}
      for (const name of ['a', 'b']) verifier.check(report, failure => { console.log(name, failure); throw new Error('mine') })
    `
    for (const workers of ['1', '0'].slice(0, inForm(1, 2))) {
      const { out, code } = await run(['-e', program, workers])
      expect(out.split('\n').sort()).toEqual(['', 'a undefined', 'b undefined', 'mine', 'mine'])
      expect(code).toBe(0)
    }
  })
})

const children = new Set<ChildProcess>()
afterEach(() => {
  for (const child of children) child.kill('SIGKILL')
})

function run(args: readonly string[]): Promise<{ code: number | null; out: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.add(child)
    let out = ''
    child.stdout.on('data', chunk => {
      out += chunk
    })
    child.on('error', reject)
    child.on('close', code => {
      children.delete(child)
      resolve({ code, out })
    })
  })
}

describe.each(['cjs', 'esm'].slice(0, inForm(1, 2)))('the %s build', format => {
  const load = (path: string): string =>
    format === 'esm'
      ? `await import(${JSON.stringify(`file://${built}/esm/${path}`)})`
      : `require(${JSON.stringify(`${built}/cjs/${path}`)})`
  const start = (program: string): ReturnType<typeof run> =>
    run(format === 'esm' ? ['--input-type=module', '-e', program] : ['-e', program])

  test('verifies in threads, and the process ends without a call of end', async () => {
    const { out, code } = await start(`
      const { verify } = ${load('plugins/verify/index.js')}
      let verifier
      const provide = (_key, made) => { verifier ??= made }
      verify({ signers: ${JSON.stringify(signers)} }).setup({ stack: [], place() {}, has: () => false, defer() {}, provide })
      for (const report of [${JSON.stringify(whole)}, ${JSON.stringify(forged)}])
        verifier.check(report, failure => console.log(failure?.reason))
    `)
    expect(out.split('\n').sort()).toEqual(['', 'undefined', 'unknown-signer'])
    expect(code).toBe(0)
  })

  test('loads neither curve library nor thread with its entry', async () => {
    const { out, code } = await start(`
      const before = new Set(process.moduleLoadList)
      const { verifyReport } = ${load('index.js')}
      const files = () => typeof require === 'function' ? Object.keys(require.cache) : []
      const loaded = () => [...files(), ...process.moduleLoadList.filter(each => !before.has(each))].filter(
        each => /worker_threads|node_modules.*secp256k1|libauth|noble|keccak|native/.test(each))
      const early = loaded().length
      verifyReport(${JSON.stringify(whole.fullReport)}, { signers: ${JSON.stringify(signers)} }).then(
        ({ signers }) => console.log(early, loaded().length > 0, signers.join()))
    `)
    expect(out).toBe(`0 ${format === 'cjs'} ${addresses.slice(0, 3).join()}\n`)
    expect(code).toBe(0)
  })
})

describe('a thread that is handed over', () => {
  const program = join(built, 'esm/plugins/verify/thread.js')

  /** What a verifier has logged while it checked some reports, and in how many threads. */
  async function run(options: Partial<VerifyOptions>) {
    const warnings: string[] = []
    const log = { warn: (text: string) => void warnings.push(text) }
    const own = new Verifier(
      readVerifyOptions({ signers, curveLibrary: 'noble', workers: 2, ...options }),
      log,
    )
    verifier = own
    const failures = await Promise.all([whole, ...many.slice(0, 4), forged].map(check))
    expect(failures.map(failure => failure?.reason)).toEqual([
      ...Array(5).fill(undefined),
      'unknown-signer',
    ])
    return { threads: own.facts().threads, warnings }
  }

  test('recovers the signers', async () => {
    let calls = 0
    const worker = () => {
      calls++
      return new threads.Worker(program)
    }
    expect(await run({ worker })).toEqual({ threads: 2, warnings: [] })
    expect(calls).toBe(2)
  })

  test('recovers them where it has the events of a worker of the web', async () => {
    const started: threads.Worker[] = []
    function worker() {
      const thread = new threads.Worker(program)
      started.push(thread)
      return {
        postMessage: (message: unknown) => thread.postMessage(message),
        terminate: () => void thread.terminate(),
        addEventListener(event: string, listener: (event: { data?: unknown }) => void) {
          thread.on(event, data => listener({ data }))
        },
      }
    }
    expect(await run({ worker })).toEqual({ threads: 2, warnings: [] })
    verifier.end()
    await until(() => started.every(({ threadId }) => threadId === -1))
  })

  const eval_ = (text: string) => new threads.Worker(text, { eval: true })
  const port = "require('node:worker_threads').parentPort"
  const load = `require(${JSON.stringify(join(built, 'cjs/plugins/verify/thread.js'))})`

  /** One that does not start, one that fails and one that answers otherwise hold the promise. */
  const broken: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['that can’t be started', () => raise(), /a bundle has no such file/],
    ['whose program fails', () => eval_('throw new Error("it fails")'), /it fails/],
    [
      'whose program is another',
      () => eval_(`${port}.on('message', x => ${port}.postMessage(x))`),
      /no answer/,
    ],
    ['that is none', () => ({}), /it is no Worker/],
    [
      'that has no events',
      () => ({ postMessage: () => undefined, terminate: () => undefined }),
      /it is no Worker/,
    ],
    [
      'that takes no messages',
      () => ({ postMessage: () => raise(), terminate: () => undefined, on: () => undefined }),
      /a bundle has no such file/,
    ],
    ['that comes later', async () => new threads.Worker(program), /it is no Worker/],
    ['that says hello first', () => eval_(`${port}.postMessage('hello'); ${load}`), /no answer/],
    [
      'that answers for too few',
      () => eval_(`${port}.on('message', () => ${port}.postMessage({ recovered: [], timed: {} }))`),
      /no answer/,
    ],
  ]
  test.each(broken.slice(0, inForm(3, broken.length)))(
    '%s costs no report, and the reason is said',
    async (_, worker, reason) => {
      const { threads: count, warnings } = await run({ worker: worker as () => threads.Worker })
      expect(count).toBe(0)
      expect(warnings).toEqual([expect.stringMatching(reason)])
    },
  )

  test('is started for one verifier: one that runs already is none', async () => {
    const one = new threads.Worker(program)
    expect((await run({ worker: () => one })).warnings).toEqual([])
    const { warnings } = await run({ worker: () => one })
    expect(warnings).toEqual([expect.stringMatching('it is a Worker that runs already')])
    await one.terminate()
  })

  function raise(): never {
    throw new Error('a bundle has no such file')
  }

  /** A thread whose messages the test lets through, and which says what it is told to say. */
  class HeldThread {
    readonly held: unknown[] = []
    hasEnded = false
    #listen: (message: unknown) => void = () => undefined
    postMessage(message: unknown): void {
      this.held.push(message)
    }
    terminate(): void {
      this.hasEnded = true
    }
    on(event: string, listener: (message: unknown) => void): void {
      if (event === 'message') this.#listen = listener
    }
    say(count: number): void {
      const recovered = Array.from({ length: count }, () => addresses.slice(0, 3))
      this.#listen({ recovered, timed: { curveLibrary: 'wasm', reports: count, ms: count } })
    }
  }
  const turn = (): Promise<void> => pause(1)

  describe('that is slow', () => {
    const limit = 5000
    let thread: HeldThread
    let started: number
    let warnings: string[]
    let isOver: boolean
    beforeEach(() => {
      isOver = false
      jest.useFakeTimers({ doNotFake: ['performance', 'queueMicrotask', 'nextTick'] })
      thread = new HeldThread()
      started = 0
      warnings = []
      const worker = () => {
        started++
        return thread as unknown as threads.Worker
      }
      verifier = new Verifier(
        readVerifyOptions({ signers, curveLibrary: 'noble', workers: 1, worker }),
        { warn: (text: string) => void warnings.push(text) },
      )
    })
    afterEach(() => {
      isOver = true
      jest.useRealTimers()
    })
    const given = async (batches: number) => {
      while (thread.held.length < 1 + batches && !isOver) await turn()
    }

    test('says which library it uses before it has recovered anything', async () => {
      const checking = check(whole)
      await given(1)
      expect(verifier.facts().curveLibrary).toBeUndefined()
      thread.say(0)
      expect(verifier.facts()).toMatchObject({ curveLibrary: 'wasm', threads: 1 })
      thread.say(1)
      await checking
    })

    test('to start is kept: the event loop works until it is ready', async () => {
      const first = check(whole)
      await given(1)
      jest.advanceTimersByTime(limit)
      expect(await first).toBeUndefined()
      expect(await check(forged)).toMatchObject({ reason: 'unknown-signer' })
      expect(verifier.facts()).toMatchObject({ curveLibrary: 'noble', threads: 0 })
      expect(warnings).toEqual([expect.stringMatching('in the event loop until a thread is ready')])
      thread.say(0)
      // Of the batch that the event loop has taken over.
      thread.say(1)
      const next = check(many[0] as Report)
      await given(2)
      thread.say(1)
      await next
      expect({ started, ...verifier.facts() }).toMatchObject({ started: 1, threads: 1 })
      expect(thread.hasEnded).toBe(false)
    })

    test('at its work answers in parts, each within the limit', async () => {
      const checking = Promise.all(many.map(check))
      await given(1)
      thread.say(0)
      for (const _ of many) {
        jest.advanceTimersByTime(limit - 1)
        await turn()
        thread.say(1)
      }
      await checking
      expect({ started, ended: thread.hasEnded }).toEqual({ started: 1, ended: false })
    })

    test('only because this process was held up is not ended', async () => {
      const checking = check(whole)
      await given(1)
      thread.say(0)
      jest.advanceTimersByTime(limit)
      // The answer was there, and is read after the timer.
      thread.say(1)
      await checking
      await turn()
      await turn()
      expect(thread.hasEnded).toBe(false)
    })

    test.each<[string, () => unknown]>([
      ['never ends', () => new Promise(() => undefined)],
      ['rejects', () => Promise.reject(new Error('of terminate'))],
      ['throws', () => raise()],
    ])('and hangs keeps nothing waiting, also if its terminate %s', async (_what, terminate) => {
      thread.terminate = terminate as () => void
      const checking = check(whole)
      await given(1)
      thread.say(0)
      const hung = thread
      for (let begun = 1; begun < 3; begun++) {
        thread = new HeldThread()
        jest.advanceTimersByTime(limit)
        for (let turns = 0; turns < 3; turns++) await turn()
      }
      expect(await checking).toBeUndefined()
      hung.say(1)
      expect(verifier.facts().threads).toBe(0)
    })
  })

  test.each([
    ['never answers', `${port}.on('message', () => undefined)`],
    [
      'hangs after its first answer',
      `let n = 0; ${load}; ${port}.on('message', () => { if (++n > 2) for (;;); })`,
    ],
  ])('that %s costs no report', async (_, text) => {
    jest.useFakeTimers({ doNotFake: ['performance', 'queueMicrotask', 'nextTick'] })
    try {
      make({ curveLibrary: 'noble', workers: 1, worker: () => eval_(text) })
      let left = 4
      for (let each = 0; each < 4; each++) {
        const checking = check(many[each] as Report).then(failure => {
          expect(failure).toBeUndefined()
          left--
        })
        for (let turn = 0; turn < 200 && left > 3 - each; turn++) {
          await jest.advanceTimersByTimeAsync(100)
          await pause(2)
        }
        await checking
      }
      expect(left).toBe(0)
    } finally {
      jest.useRealTimers()
    }
  })
})
