import type { CursorStore } from '../client/stores/file-cursors.js'
import { isError, isStreamsError } from '../core/errors.js'
import { checkFunction, optional, readOptions, type Schema } from '../core/options.js'
import { Findings, Stop } from './faults.js'
import {
  copyOf,
  describeOutcome,
  describeThrown,
  findDifference,
  type Outcome,
  outcomeOf,
  show,
  startWait,
  TimerWatch,
  wait,
} from './probe.js'

/** Options of `testCursorStore`. */
export interface CursorStoreTestOptions {
  /**
   * Ends what `open` began, such as a connection. Runs once for each opened store, at the end.
   * @default nothing
   */
  readonly close?: (store: CursorStore) => void | Promise<void>
  /**
   * Makes the store fail from now on: breaks its file, or ends its server. Runs near the end of the
   * test. Afterwards `load` and `save` must reject. @default failures are not tested
   */
  readonly fail?: () => void | Promise<void>
}

/** What `testCursorStore` found out about a store that broke no rule. */
export interface CursorStoreTestResult {
  /** Whether the store has a lock. */
  readonly isLockable: boolean
}

const schema = {
  close: optional(checkFunction<NonNullable<CursorStoreTestOptions['close']>>),
  fail: optional(checkFunction<NonNullable<CursorStoreTestOptions['fail']>>),
} satisfies Schema<CursorStoreTestOptions>

type Cursors = Readonly<Record<string, number>>
type Release = () => Promise<void>

/** How many feeds the largest save has. */
const FEEDS = 1000
/** Milliseconds for which a second lock is watched while the first lock is held. */
const WATCH = 150
/** Milliseconds in which a lock must reject after its signal has aborted. */
const ABORT_LIMIT = 1000
/** Milliseconds in which the timers of the last calls must have ended. */
const TIMER_LIMIT = 250

/** A feed's id: of milliseconds if the index is odd. */
const idOf = (index: number): string => `0x${index % 2}003${index.toString(16).padStart(60, '0')}`

/** Cursors of so many feeds. `step` tells one record of cursors from another. */
function cursorsOf(count: number, step: number): Record<string, number> {
  const entries = Array.from({ length: count }, (_, index): [string, number] => {
    const seconds = 1_700_000_000 + step
    return [idOf(index), index % 2 === 0 ? seconds : 1000 * seconds + (index % 1000)]
  })
  return Object.fromEntries(entries)
}

/** Times at the ends of what a store has to keep, in seconds and in milliseconds. */
const edges: Cursors = Object.fromEntries([
  ...[0, 1, 1_700_000_000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 1e11 - 1].map((time, index) => [
    `0x0002${'fedcba9876543210'.repeat(3)}${String(index).padStart(12, '0')}`,
    time,
  ]),
  ...[0, 1e11, 1_700_000_000_123, 2 ** 41 + 1, 1e14 - 1].map((time, index) => [
    `0x1fff${'0123456789abcdef'.repeat(3)}${String(index).padStart(12, 'e')}`,
    time,
  ]),
])

/** A test of one store. */
class CursorStoreTest {
  readonly opened: CursorStore[] = []
  /** Ends the waits for locks, and releases the locks, that a broken rule has left. */
  readonly #leftovers: (() => unknown)[] = []
  readonly #open: () => CursorStore | Promise<CursorStore>
  readonly #findings: Findings

  constructor(open: () => CursorStore | Promise<CursorStore>, findings: Findings) {
    this.#open = open
    this.#findings = findings
  }

  /** Opens the store, and checks what it has. */
  async open(): Promise<CursorStore> {
    const store = await this.#open()
    const { load, save, lock } = (store ?? {}) as Partial<CursorStore>
    const isShaped =
      typeof load === 'function' &&
      typeof save === 'function' &&
      (lock === undefined || typeof lock === 'function')
    if (!isShaped) this.#stop('shape', 'load and save must be functions, and lock if there is one')
    this.opened.push(store)
    return store
  }

  #stop(rule: string, message: string): never {
    this.#findings.stop(rule, message)
  }

  #valueOf<Value>(outcome: Outcome<Value>, rule: string, call: string): Value {
    return this.#findings.valueOf(outcome, rule, call)
  }

  async #load(store: CursorStore): Promise<Cursors> {
    const cursors = this.#valueOf(await outcomeOf(() => store.load()), 'loads', 'load')
    const kind = Object.prototype.toString.call(cursors).slice(8, -1)
    if (kind !== 'Object') this.#stop('plain', `load gave no plain object but ${kind}`)
    for (const [feedID, time] of Object.entries(cursors))
      if (typeof time !== 'number')
        this.#stop('plain', `load gave ${show(time)} as the cursor of ${feedID}, and no number`)
    return cursors
  }

  async #save(store: CursorStore, cursors: Cursors): Promise<void> {
    this.#valueOf(await outcomeOf(() => store.save(cursors)), 'saves', 'save')
  }

  /** Locks a store as a stream does, if the store has a lock. */
  async #lock(store: CursorStore): Promise<Release> {
    if (store.lock === undefined) return async () => undefined
    const { signal } = new AbortController()
    const release = this.#valueOf(await this.#tryLock(store, signal), 'lock', 'lock')
    if (typeof release !== 'function')
      this.#stop('lock', `lock resolved with ${show(release)}, and no function`)
    this.#leftovers.push(() => release())
    return release
  }

  #tryLock(store: CursorStore, signal: AbortSignal): Promise<Outcome<Release>> {
    const waiting = (reason: unknown): void =>
      this.#findings.check(
        isError(reason),
        'lock-error',
        `the second argument of lock was called with ${show(reason)}, and no error`,
      )
    return outcomeOf(() => (store as Required<CursorStore>).lock(signal, waiting))
  }

  async #release(release: Release): Promise<void> {
    this.#valueOf(await outcomeOf(release), 'lock-release', 'the release of the lock')
  }

  /** Runs a part of the test with a newly opened store, as one stream after the other would. */
  async #session(work: (store: CursorStore) => Promise<void>): Promise<void> {
    const store = await this.open()
    const release = await this.#lock(store)
    await work(store)
    await this.#release(release)
  }

  /** Compares the cursors of a store with what was saved. */
  async #expect(store: CursorStore, expected: Cursors, rule: string, when: string): Promise<void> {
    const difference = differenceOf(expected, await this.#load(store))
    if (difference !== undefined)
      this.#stop(rule, `${when}, load gave other cursors: ${difference}`)
  }

  /** Runs all parts. `fail` makes the store fail. */
  async run(fail: CursorStoreTestOptions['fail']): Promise<void> {
    const parts: readonly (readonly [string, () => Promise<void>])[] = [
      ['an empty store', () => this.#testEmpty()],
      ['two cursors', () => this.#testRestart()],
      ['a smaller save', () => this.#testReplacement()],
      ['unusual times', () => this.#testEdges()],
      [`${FEEDS} feeds`, () => this.#testMany()],
      ['a load during a save', () => this.#testWhole()],
      ['overlapping saves', () => this.#testOrder()],
      ['the lock', () => this.#testLock()],
      ['a failing store', async () => fail && (await this.#testFailure(fail))],
    ]
    for (const [where, test] of parts) {
      this.#findings.where = where
      try {
        await test()
      } catch (thrown) {
        for (const end of this.#leftovers) await outcomeOf(async () => end(), ABORT_LIMIT)
        // After a rule was broken, the store's lock or content may be wrong in other parts, too.
        if (thrown instanceof Stop) return
        throw thrown
      }
    }
  }

  async #testEmpty(): Promise<void> {
    await this.#session(async store => {
      const names = Object.keys(await this.#load(store))
      if (names.length > 0)
        this.#stop('empty', `load gave cursors of ${names.length} feeds, and nothing was saved`)
    })
  }

  async #testRestart(): Promise<void> {
    const saved = cursorsOf(2, 0)
    await this.#session(async store => {
      await this.#load(store)
      const given = { ...saved }
      await this.#save(store, given)
      const difference = differenceOf(saved, given)
      if (difference !== undefined)
        this.#stop('argument', `save changed its argument: ${difference}`)
      // A stream may use the object again.
      for (const id of Object.keys(given)) given[id] = 1
      given[idOf(7)] = 7
      const loaded = await this.#load(store)
      if (differenceOf(given, loaded) === undefined)
        this.#stop('argument', 'load gave what the saved object was changed to after the save')
      await this.#expect(store, saved, 'saved', 'after a save')
      spoil(await this.#load(store))
      await this.#expect(store, saved, 'copy', 'after the loaded object was changed')
    })
    await this.#session(store => this.#expect(store, saved, 'restart', 'from a newly opened store'))
  }

  async #testReplacement(): Promise<void> {
    for (const saved of [{ [idOf(1)]: 1_700_000_001_000 }, {}, cursorsOf(3, 5)]) {
      await this.#session(async store => {
        await this.#load(store)
        await this.#save(store, saved)
        const when = `after a save of ${Object.keys(saved).length} feeds`
        await this.#expect(store, saved, 'replace', when)
      })
      await this.#session(store =>
        this.#expect(store, saved, 'replace', 'from a newly opened store'),
      )
    }
  }

  async #testEdges(): Promise<void> {
    await this.#session(async store => {
      await this.#load(store)
      await this.#save(store, edges)
    })
    await this.#session(store => this.#expect(store, edges, 'exact', 'from a newly opened store'))
  }

  async #testMany(): Promise<void> {
    const saved = cursorsOf(FEEDS, 10)
    await this.#session(async store => {
      await this.#load(store)
      await this.#save(store, saved)
    })
    await this.#session(store => this.#expect(store, saved, 'many', 'from a newly opened store'))
  }

  /** A process may load what another one saves. */
  async #testWhole(): Promise<void> {
    const [old, next] = [cursorsOf(FEEDS, 10), cursorsOf(FEEDS, 20)]
    const reader = await this.open()
    await this.#session(async store => {
      await this.#load(store)
      await this.#save(store, old)
      let torn: string | undefined
      const read = async (from: CursorStore): Promise<void> => {
        const outcome = await outcomeOf(() => from.load())
        // A store may refuse to be read by two streams.
        if (outcome.kind !== 'resolved' || differenceOf(old, outcome.value) === undefined) return
        torn ??= differenceOf(next, outcome.value)
      }
      let isSaving = true
      const saving = outcomeOf(() => store.save(next)).finally(() => {
        isSaving = false
      })
      for (let count = 0; isSaving && count < 20; count++)
        await Promise.all([read(reader), read(store)])
      const outcome = await saving
      if (torn !== undefined)
        this.#stop('whole', `load gave neither the old nor the new cursors: ${torn}`)
      // The reader may have taken the store over.
      const isTaken = outcome.kind === 'rejected' && isStreamsError(outcome.error, 'CURSOR_STORE')
      if (!isTaken) this.#valueOf(outcome, 'saves', 'save')
    })
  }

  /**
   * Of two streams with one store that has no lock, the later one saves. The last save of the
   * earlier one may still be running then.
   */
  async #testOrder(): Promise<void> {
    const store = await this.open()
    if (store.lock !== undefined) return
    for (let round = 0; round < 3; round++) {
      const [first, second] = [cursorsOf(FEEDS, 30 + round), cursorsOf(2, 40 + round)]
      await this.#load(store)
      const saves = [first, second].map(each => outcomeOf(() => store.save(each)))
      for (const outcome of await Promise.all(saves)) this.#valueOf(outcome, 'saves', 'save')
      await this.#expect(store, second, 'order', 'after two overlapping saves')
    }
  }

  async #testLock(): Promise<void> {
    const first = await this.open()
    if (first.lock === undefined) return
    const second = await this.open()
    const third = await this.open()
    for (const [name, other] of [
      ['a second store', second],
      ['the same store', first],
    ] as const) {
      const release = await this.#lock(first)
      const waiting = await this.#expectWait(other, `lock of ${name}`)
      await this.#load(first)
      await this.#save(first, cursorsOf(2, 50))
      await this.#release(release)
      const got = await waiting.outcome
      if (got.kind === 'pending')
        this.#stop('lock-wait', `lock of ${name}, after the release, ${describeOutcome(got)}`)
      // A store may reject instead of waiting. Then the lock must be free now.
      const next =
        got.kind === 'rejected'
          ? await this.#lock(other)
          : this.#valueOf(got, 'lock', `lock of ${name}`)
      await this.#testReleased(release, third)
      await this.#release(next)
    }
    await this.#session(store => this.#expect(store, cursorsOf(2, 50), 'saved', 'after the locks'))
  }

  /** While another stream holds the lock, the old release does nothing, and a wait can be ended. */
  async #testReleased(release: Release, store: CursorStore): Promise<void> {
    const again = await outcomeOf(release)
    if (again.kind !== 'resolved')
      this.#stop('lock-release', `the second call of a release ${describeOutcome(again)}`)
    const { controller, outcome } = await this.#expectWait(
      store,
      'lock, after an old release was called again,',
    )
    controller.abort(new Error('the stream was closed'))
    await this.#expectAbort(outcome, 'lock, after its signal aborted,')
    const early = this.#tryLock(store, AbortSignal.abort())
    await this.#expectAbort(early, 'lock with an aborted signal')
  }

  async #expectAbort(outcome: Promise<Outcome<Release>>, call: string): Promise<void> {
    const late = startWait(ABORT_LIMIT)
    const settled = await Promise.race([outcome, late.over]).finally(late.end)
    if (settled?.kind === 'rejected') return
    const how = settled === undefined ? 'went on waiting' : describeOutcome(settled)
    this.#stop('lock-abort', `${call} ${how}`)
  }

  /** Locks a store that is locked. Resolves when the lock has waited for a while. */
  async #expectWait(store: CursorStore, call: string) {
    const controller = new AbortController()
    this.#leftovers.push(() => controller.abort())
    let settled: Outcome<Release> | undefined
    const outcome = this.#tryLock(store, controller.signal).then(result => {
      settled = result
      return result
    })
    await wait(WATCH)
    if (settled?.kind === 'rejected' && !isStreamsError(settled.error, 'CURSOR_STORE'))
      this.#stop(
        'lock-error',
        `${call} rejected without the code CURSOR_STORE: ${describeThrown(settled.error)}`,
      )
    if (settled !== undefined && settled.kind !== 'rejected') {
      if (settled.kind !== 'resolved') this.#valueOf(settled, 'lock', call)
      this.#stop('lock-exclusive', `${call} resolved while another stream held the lock`)
    }
    return { controller, outcome }
  }

  async #testFailure(fail: () => void | Promise<void>): Promise<void> {
    const store = await this.open()
    const release = await this.#lock(store)
    await this.#load(store)
    await this.#save(store, cursorsOf(2, 60))
    await fail()
    const calls = [
      ['save', () => store.save(cursorsOf(2, 70))],
      ['load', () => store.load()],
    ] as const
    for (const [name, call] of calls) {
      const outcome = await outcomeOf<unknown>(call)
      if (outcome.kind === 'rejected') continue
      if (outcome.kind !== 'resolved') this.#valueOf(outcome, 'failure', name)
      this.#stop('failure', `${name} of a failing store ${describeOutcome(outcome)}`)
    }
    // The release may fail, too.
    await outcomeOf(release)
  }
}

const differenceOf = (expected: Cursors, found: unknown): string | undefined =>
  findDifference(copyOf(expected), copyOf(found), '')

/** Changes a loaded object, unless it is frozen. */
function spoil(cursors: Cursors): void {
  for (const id of Object.keys(cursors)) Reflect.set(cursors, id, 1)
  Reflect.set(cursors, idOf(9), 9)
}

/**
 * Checks the rules of a store of cursors. `open` opens one and the same store each time, which is
 * empty at first. Between two calls it may keep what a restart of the process would keep.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my store keeps the rules', () => testCursorStore(() => myCursors(url)))
 * ```
 */
export async function testCursorStore(
  open: () => CursorStore | Promise<CursorStore>,
  options?: CursorStoreTestOptions,
): Promise<CursorStoreTestResult> {
  checkFunction('open', open)
  const { fail, close } = readOptions('testCursorStore', options, schema)
  const findings = new Findings('store of cursors')
  const test = new CursorStoreTest(open, findings)
  const timers = new TimerWatch()
  try {
    await test.run(fail)
    findings.where = 'the end'
    for (const store of test.opened) await close?.(store)
    findings.finish()
    for (const origin of await timers.leftAfter(TIMER_LIMIT))
      findings.add('timers', `a timer still runs: ${origin}`)
  } finally {
    timers.end()
  }
  findings.finish()
  return { isLockable: test.opened[0]?.lock !== undefined }
}
