import { afterEach, beforeEach, expect, jest } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import type { StreamScope } from '../../../client/contract/scope.js'
import type { Status } from '../../../client/contract/status.js'
import { sleep } from '../../../core/async.js'
import type { ClientScope } from '../../../core/scope.js'
import { type ContinuityOptions, continuity } from '../../../plugins/continuity/index.js'
import { dedup } from '../../../plugins/dedup.js'
import type { Gap, GapFilled } from '../../../report/gaps.js'
import type { Report } from '../../../report/report.js'
import { provideSeen } from '../../../report/seen-times.js'

/** The time of the platform, and so of fake timers. */
export const timing: StreamScope['client']['timing'] = {
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

export const feedA: string = `0x0003${'aa'.repeat(30)}`

export const feedB: string = `0x0003${'bb'.repeat(30)}`

export const inMilliseconds: string = `0x1003${'cc'.repeat(30)}`

beforeEach(() => void jest.useFakeTimers({ now: 1_800_000_000_000 }))

afterEach(() => {
  expect(jest.getTimerCount()).toBe(0)
  jest.useRealTimers()
})

interface Facts {
  readonly feedID?: string
  readonly from?: number
  readonly signers?: string
  readonly source?: Report['source']
}

/** The parts of a report that continuity and dedup read. */
export function report(time: number, facts: Facts = {}): Report {
  const { feedID = feedA, from = time, signers = '00', source = 'live' } = facts
  const word = (value: number | string) => String(value).padStart(64, '0')
  const words = [signers, 0, 0, 'e0', 0, 0, '11', '20', String(time), 0, 0].map(word)
  return {
    feedID,
    observationsTimestamp: time,
    validFromTimestamp: from,
    fullReport: `0x${words.join('')}`,
    origin: '001',
    source,
  } as Report
}

type Page = (from: number, limit: number, feedID: string) => readonly Report[]

export interface StreamUnderTest {
  publish: (times: readonly number[], facts?: Facts & { live?: boolean; lost?: boolean }) => void
  sink: Sink
  top: Sink
  delivered: Report[]
  gaps: Gap[]
  limits: Map<string, number | undefined>
  filled: GapFilled[]
  /** The times of reports that were counted as superseded. */
  superseded: number[]
  reset: string[]
  failures: Error[]
  requests: { feedID: string; from: number; at: number }[]
  stored: Report[]
  /** `refuse` says why a plugin refuses a fetched report. */
  service: { page: Page; delayMs: number; refuse?: (report: Report) => Error | undefined }
  scope: StreamScope
  times: (feedID?: string) => number[]
  backfilled: () => number[]
  connect(isOpen: boolean, feedIDs?: readonly string[]): void
  emitStatus: (status: Status) => void
  end(): void
}

/** A stream with continuity above dedup, and its events. `stored` are the reports that the service has. */
export function stream(
  options: ContinuityOptions = {},
  cursors: ReadonlyMap<string, number> = new Map(),
): StreamUnderTest {
  const delivered: Report[] = []
  const gaps: Gap[] = []
  const limits = new Map<string, number | undefined>()
  const filled: GapFilled[] = []
  const superseded: number[] = []
  const reset: string[] = []
  const failures: Error[] = []
  const requests: { feedID: string; from: number; at: number }[] = []
  const stored: Report[] = []
  const listeners = new Map<string, Set<(value: unknown) => void>>()
  const deferred: (() => void)[] = []
  const controller = new AbortController()
  const service: StreamUnderTest['service'] = {
    page: (from, limit, feedID) =>
      stored
        .filter(each => each.feedID === feedID && each.observationsTimestamp >= from)
        .sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
        .slice(0, limit),
    delayMs: 20,
  }
  const services = new Map<object, unknown>()
  const find: ClientScope['find'] = key => services.get(key) as undefined
  provideSeen({ find, provide: (key, service) => void services.set(key, service) })
  let connections = 1
  let uncovered: readonly string[] = []
  const scope = {
    kind: 'stream',
    feedIDs: [feedA, feedB, inMilliseconds],
    log: {},
    signal: controller.signal,
    defer: (task: () => void) => void deferred.push(task),
    count(as: string, { observationsTimestamp }: Report) {
      if (as === 'superseded') superseded.push(observationsTimestamp)
    },
    cursors: {
      get: (feedID: string) => cursors.get(feedID),
      limit: (feedID: string, time: number | undefined) => void limits.set(feedID, time),
    },
    connections: {
      get open() {
        return connections
      },
      get uncovered() {
        return uncovered
      },
      watch: () => () => undefined,
      reset: (feedIDs: readonly string[]) => void reset.push(...feedIDs),
    },
    events: {
      emit(event: string, value: unknown) {
        for (const listener of listeners.get(event) ?? []) listener(value)
        if (event === 'gap') gaps.push(value as Gap)
        if (event === 'gap-filled') filled.push(value as GapFilled)
        if (event === 'error') failures.push(value as Error)
      },
      on(event: string, listener: (value: unknown) => void) {
        const those = listeners.get(event) ?? new Set()
        listeners.set(event, those.add(listener))
        return () => void those.delete(listener)
      },
    },
    client: {
      find,
      now: Date.now,
      timing,
      async fetchPage(feedID: string, from: number, limit: number, signal: AbortSignal) {
        requests.push({ feedID, from, at: performance.now() })
        await sleep(service.delayMs, signal)
        return service
          .page(from, limit, feedID)
          .map(each => Object.assign({}, each, { source: 'backfill' }) as Report)
      },
    },
    flow: { room: async () => undefined },
    async inject(each: Report) {
      const refusal = service.refuse?.(each)
      if (refusal !== undefined) throw refusal
      sink(each)
    },
  } as unknown as StreamScope
  const top = continuity(options).report?.(each => void delivered.push(each), scope) as Sink
  const sink = dedup({ window: 4096 }).report?.(top, scope) as Sink

  function emitStatus(status: Status) {
    for (const listener of listeners.get('status') ?? []) listener(status)
  }

  /** Publishes reports of one unit each: `live` are streamed, all that are not `lost` are stored. */
  function publish(
    times: readonly number[],
    facts: Facts & { live?: boolean; lost?: boolean } = {},
  ) {
    for (const time of times) {
      const each = report(time, facts)
      if (facts.lost !== true) stored.push(each)
      if (facts.live !== false) sink(each)
    }
  }
  return {
    publish,
    sink,
    top,
    delivered,
    gaps,
    limits,
    filled,
    superseded,
    reset,
    failures,
    requests,
    stored,
    service,
    scope,
    times: (feedID = feedA) =>
      delivered.filter(each => each.feedID === feedID).map(each => each.observationsTimestamp),
    backfilled: () =>
      delivered.filter(each => each.source === 'backfill').map(each => each.observationsTimestamp),
    /** All connections open or close, or those of some feeds. */
    connect(isOpen: boolean, feedIDs: readonly string[] = scope.feedIDs) {
      connections = isOpen || feedIDs.length < scope.feedIDs.length ? 1 : 0
      uncovered = isOpen ? [] : feedIDs
      emitStatus({ type: isOpen ? 'connected' : 'disconnected' } as Status)
    },
    emitStatus,
    end() {
      controller.abort(new Error('over'))
      for (const task of deferred.reverse()) task()
    },
  }
}

/** A stream whose reports have shown that they begin where the ones before them ended; the newest is of 100. */
export function linkedStream(...options: Parameters<typeof stream>): StreamUnderTest {
  const all = stream(...options)
  all.publish([98])
  all.publish([100], { from: 99 })
  return all
}

/** A gap of what the service does not have. */
export const upstream = (from: number, to: number): Gap => ({
  feedID: feedA,
  from,
  to,
  cause: 'upstream',
})

export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)

export const wait = (ms: number): Promise<void> => jest.advanceTimersByTimeAsync(ms)
