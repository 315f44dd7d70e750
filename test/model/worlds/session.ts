// One stream of a world: the real stages of continuity and dedup on a light scope, and what they are seen to do.

import type { Sink } from '../../../client/contract/plugin.js'
import type { ScopeEventMap, StreamScope } from '../../../client/contract/scope.js'
import type { ConnectionChange, ConnectionState, Status } from '../../../client/contract/status.js'
import { Present } from '../../../client/present.js'
import { Cursors } from '../../../client/stream/cursors.js'
import { Feeds } from '../../../client/stream/feeds.js'
import { platformTiming } from '../../../client/clock.js'
import { createServices } from '../../../core/scope.js'
import { continuity } from '../../../plugins/continuity/index.js'
import { dedup } from '../../../plugins/dedup.js'
import { inMilliseconds } from '../../../report/feed-id.js'
import type { Gap } from '../../../report/gaps.js'
import type { Report } from '../../../report/report.js'
import { provideSeen } from '../../../report/seen-times.js'
import type { VirtualTime } from '../../../testing/virtual-time.js'
import { LATENCY, reportOf, type Service } from './service.js'
import type { Observation, World } from './world.js'

/** A report that reached the user, or came in from below, and when. */
export interface Passed {
  readonly from: number
  readonly to: number
  readonly at: number
  /** Of what happened at one time, what came first has the smaller number. */
  readonly order: number
  readonly source: Report['source']
}

/** A gap that was announced, and when. */
export interface AnnouncedGap extends Gap {
  readonly at: number
  readonly order: number
}

/** What a stream did with one feed. */
export interface FeedLog {
  readonly cursor: number | undefined
  /** What came in, each time once, in the order of arrival. */
  readonly entered: Map<number, Passed>
  /** What came over a connection. */
  readonly arrived: Set<number>
  /** In the order of delivery, doubles included. */
  readonly delivered: Passed[]
  readonly gaps: AnnouncedGap[]
  readonly filled: { readonly gap: Gap; readonly time: number }[]
}

/** One stream from its start to its end. */
export interface Session {
  readonly startedAt: number
  endedAt: number | undefined
  readonly feeds: readonly FeedLog[]
  readonly errors: readonly Error[]
  readonly conflicts: readonly ScopeEventMap['conflict'][]
  /** When connections were opened anew, as the plugins had asked. */
  readonly resets: readonly number[]
  /** Delivered reports of feeds that were not asked for. */
  readonly strangers: readonly Report[]
  /** How often feeds went stale. */
  readonly stales: number
  receive(observation: Observation, origin: number): void
  connect(origin: number): void
  disconnect(origin: number): void
  /** The time up to which a feed has been taken. */
  cursor(feed: number): number | undefined
  end(by: 'failure' | 'close'): void
}

/** What a session needs. */
export interface SessionParts {
  readonly world: World
  readonly time: VirtualTime
  readonly service: Service
  readonly cursors: readonly (number | undefined)[]
  /** Has connections closed and opened anew. */
  reset(): void
  /** Hears of all that happens, in words. */
  readonly note: ((text: string) => void) | undefined
}

const STALE_AFTER = 30_000
/** Longer than any world lasts: cursors are saved at the end. */
const SAVE_INTERVAL = 1_000_000_000

type Listener = (value: never) => void

/** Starts a stream; nothing is connected yet. */
export function startSession(parts: SessionParts): Session {
  const { world, time, service, note } = parts
  const { feeds } = world
  const feedIDs = feeds.map(({ feedID }) => feedID)
  const logs = parts.cursors.map(
    (cursor): FeedLog => ({
      cursor,
      entered: new Map(),
      arrived: new Set(),
      delivered: [],
      gaps: [],
      filled: [],
    }),
  )
  const errors: Error[] = []
  const { clocks } = world
  const present: Present = new Present(
    () => Date.now() + (time.now >= clocks.at ? clocks.error : 0),
    () => void ask(),
  )
  const cursors = new Cursors({
    store: {
      load: async () =>
        Object.fromEntries(
          feedIDs.flatMap((feedID, at) => {
            const cursor = parts.cursors[at]
            return cursor === undefined ? [] : [[feedID, cursor]]
          }),
        ),
      save: async () => undefined,
    },
    saveInterval: SAVE_INTERVAL,
    now: present.now,
    failed: error => void errors.push(error),
  })
  void cursors.load()
  let phase: 'running' | 'ending' | 'over' = 'running'
  const conflicts: ScopeEventMap['conflict'][] = []
  const resets: number[] = []
  const strangers: Report[] = []
  const controller = new AbortController()
  const deferred: (() => void)[] = []
  const listeners = new Map<string, Set<Listener>>()
  const watchers = new Set<(change: ConnectionChange, before: ConnectionState) => void>()
  const open = new Set<number>()
  let carried: StreamScope['connections']['carried']
  let stales = 0
  let order = 0
  /** An answer came of what was sent at a time. */
  function answered(sent: number): void {
    if (clocks.date === undefined) return
    const date = Math.floor((time.wall + clocks.date) / 1000) * 1000
    const headers = new Headers({ date: new Date(date).toUTCString() })
    present.dated('rest', headers, sent, time.now)
  }

  async function ask(): Promise<void> {
    const sent = time.now
    await new Promise<void>(resolve => time.outside(2 * LATENCY, resolve))
    if (!service.isAway) answered(sent)
  }

  const originOf = (origin: number): string => `wss://o${origin + 1}.example#00${origin + 1}`
  const logOf = (feedID: string): FeedLog | undefined => logs[feedIDs.indexOf(feedID)]

  function stateOf(origin: number, isOpen: boolean): ConnectionState {
    return {
      facts: { origin: originOf(origin), host: `o${origin + 1}.example` },
      status: isOpen ? 'connected' : 'disconnected',
      open: isOpen ? 1 : 0,
      wasOpen: true,
      isFailing: false,
      attempts: 0,
      lastError: undefined,
    }
  }

  function emit(event: string, value: unknown): void {
    if (event === 'gap') {
      const gap = value as Gap
      note?.(`gap ${gap.from}..${gap.to} ${gap.cause}`)
      logOf(gap.feedID)?.gaps.push({ ...gap, at: time.now, order: order++ })
    } else if (event === 'gap-filled') {
      const { gap, report } = value as ScopeEventMap['gap-filled']
      note?.(`gap ${gap.from}..${gap.to} filled by ${report.observationsTimestamp}`)
      logOf(report.feedID)?.filled.push({ gap, time: report.observationsTimestamp })
    } else if (event === 'conflict') conflicts.push(value as ScopeEventMap['conflict'])
    else if (event === 'error') errors.push(value as Error)
    else if (event === 'status') note?.(`status ${(value as Status).type}`)
    const known = [...(listeners.get(event) ?? [])]
    for (const listener of event === 'ending' ? known.reverse() : known) listener(value as never)
  }

  const subscribed = new Feeds()
  subscribed.add(feedIDs)

  const services = createServices()
  provideSeen(services)
  const scope = {
    kind: 'stream',
    feedIDs,
    log: {},
    signal: controller.signal,
    defer: (task: () => void) => void deferred.push(task),
    client: {
      now: present.now,
      timing: platformTiming,
      async fetchPage(...asked: Parameters<Service['fetchPage']>) {
        const sent = time.now
        const page = await service.fetchPage(...asked)
        answered(sent)
        return page
      },
      metrics: () => [],
      find: services.find,
    },
    connections: {
      get open() {
        return open.size
      },
      get uncovered() {
        return open.size > 0 ? [] : feedIDs
      },
      get carried() {
        return carried
      },
      of(origin: string) {
        const at = [0, 1, 2].find(each => originOf(each) === origin)
        return at === undefined ? undefined : stateOf(at, open.has(at))
      },
      reset(given: readonly string[]) {
        note?.('connections are reset')
        if (given.length === 0) return
        resets.push(time.now)
        parts.reset()
      },
      watch(listener: (change: ConnectionChange, before: ConnectionState) => void) {
        watchers.add(listener)
        return () => void watchers.delete(listener)
      },
    },
    events: {
      emit,
      on(event: string, listener: Listener) {
        const known = listeners.get(event) ?? new Set()
        listeners.set(event, known.add(listener))
        return () => void known.delete(listener)
      },
    },
    cursors: {
      get: (feedID: string) => logOf(feedID)?.cursor,
      limit(feedID: string, limit: number | undefined) {
        note?.(`cursor below ${limit}`)
        // As the scope of a stream does it.
        if (phase === 'running') cursors.limit(feedID, limit)
        else if (phase === 'ending' && limit !== undefined) cursors.lower(feedID, limit)
      },
    },
    flow: {
      room: async () => undefined,
      pause: () => ({ hasUnpausable: false, resume: () => undefined }),
    },
    count: () => undefined,
    inject: async (report: Report) => enter(report),
    waitUntil: () => undefined,
  } as unknown as StreamScope

  function deliver(report: Report): void {
    const { feedID, validFromTimestamp: from, observationsTimestamp: to, source } = report
    note?.(`delivered ${to} (${source})`)
    const log = logOf(feedID)
    if (log === undefined) strangers.push(report)
    else log.delivered.push({ from, to, at: time.now, order: order++, source })
    cursors.arrived(report)
    cursors.acknowledged(report)
  }

  const top = continuity(world.continuity).report?.(deliver, scope) as Sink
  const bottom = dedup().report?.(top, scope) as Sink
  present.watch(moved => {
    note?.(`the clock is ${moved.offsetMs} ms behind, says ${moved.source}`)
    emit('status', { type: 'clock', ...moved })
  })
  subscribed.watch(world.staleAfter ?? STALE_AFTER, platformTiming, { isPaused: false }, status => {
    if (status.type === 'stale') stales++
    emit('status', status)
  })

  function enter(report: Report): void {
    const { feedID, validFromTimestamp: from, observationsTimestamp: to, source } = report
    const entered = logOf(feedID)?.entered
    if (entered?.has(to) === false)
      entered.set(to, { from, to, at: time.now, order: order++, source })
    bottom(report)
  }

  function change(type: 'connected' | 'disconnected', origin: number): void {
    const before = stateOf(origin, open.has(origin))
    const { facts } = before
    if (type === 'connected') open.add(origin)
    else open.delete(origin)
    const isCarried = carried !== undefined && carried.until === undefined
    if (open.size > 0 && !isCarried) carried = { since: time.now, until: undefined }
    if (open.size === 0 && isCarried && carried !== undefined)
      carried = { ...carried, until: time.now }
    const status = (
      type === 'connected'
        ? { type, ...facts }
        : { type, ...facts, wasOpen: true, error: new Error('the connection was lost') }
    ) as ConnectionChange
    for (const watcher of [...watchers]) watcher(status, before)
    emit('status', status)
  }

  const session: Session = {
    startedAt: time.now,
    endedAt: undefined,
    feeds: logs,
    errors,
    conflicts,
    resets,
    strangers,
    get stales() {
      return stales
    },
    receive(observation, origin) {
      if (!open.has(origin)) return
      const { feedID } = feeds[observation.feed] as World['feeds'][number]
      const state = subscribed.states.get(feedID)
      if (state !== undefined) state.reports++
      const { from, to } = observation
      const log = logs[observation.feed] as FeedLog
      if (note !== undefined) {
        const isNew = log.entered.has(to) ? 'copy' : 'report'
        note(`${isNew} ${from}..${to} of ${observation.digest} from origin ${origin}`)
      }
      log.arrived.add(to)
      const report = reportOf(feedID, observation, originOf(origin), 'live')
      const at = inMilliseconds(feedID, to)
      if (at > present.horizon) present.look(report, at)
      enter(report)
    },
    connect(origin) {
      if (open.has(origin)) return
      present.connected()
      change('connected', origin)
    },
    disconnect(origin) {
      if (open.has(origin)) change('disconnected', origin)
    },
    cursor: feed => cursors.cursor(feedIDs[feed] ?? ''),
    end(by) {
      note?.(`the stream ends: ${by}`)
      session.endedAt = time.now
      subscribed.unwatch()
      phase = by === 'failure' ? 'ending' : 'over'
      if (by === 'failure') emit('ending', new Error('the stream has failed'))
      phase = 'over'
      controller.abort(new Error('the stream has ended'))
      present.end()
      void cursors.flush()
      for (const task of deferred.reverse()) task()
    },
  }
  return session
}
