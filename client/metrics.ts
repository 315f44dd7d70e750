import type { OriginTraffic, StreamCounters, StreamMetrics } from './stream/stream-api.js'

/**
 * The counts of a client since it was created, over all its streams. Streams that have ended are
 * included.
 */
export interface ClientMetrics extends Readonly<StreamCounters> {
  /** Reports that could not be decoded. */
  readonly undecoded: number
  /** The counts of each origin. Origins after the first 256 are counted together as `_OTHER`. */
  readonly origins: Readonly<Record<string, OriginTotals>>
  /** The metrics of each stream that has not ended. */
  readonly streams: readonly StreamMetrics[]
}

/** The counts of one origin, over all streams. */
export type OriginTotals = Readonly<Pick<OriginTraffic, (typeof originCounts)[number]>>

/** Adds up the counts of a client's streams. */
export interface Totals {
  countUndecoded(): void
  /** Adds a stream. Returns a function to call once the stream has ended. */
  add(
    counters: Readonly<StreamCounters>,
    origins: ReadonlyMap<string, Readonly<OriginTraffic>>,
  ): () => void
  /** Adds the counts of an origin that a stream no longer has. */
  addOrigin(origin: string, traffic: Readonly<OriginTraffic>): void
  read(): ClientMetrics
}

const originCounts = ['received', 'first', 'outOfOrder', 'verified', 'verificationFailed'] as const
/** The most origins that are counted separately, so that the metrics stay small. */
const MAX_ORIGINS = 256
/** The name under which further origins are counted together. */
const OTHER = '_OTHER'

/** Makes the counters of a stream, all zero. */
export function createCounters(): StreamCounters {
  return {
    accepted: 0,
    deduplicated: 0,
    outOfOrder: 0,
    ahead: 0,
    superseded: 0,
    signedLater: 0,
    backfilled: 0,
    dropped: 0,
    gaps: 0,
    verified: 0,
    verificationFailed: 0,
    malformed: 0,
    redelivered: 0,
    deadLetters: 0,
    partialReconnects: 0,
    fullReconnects: 0,
  }
}

/** Makes the totals of a client; `streams` reads the metrics of its streams. */
export function createTotals(streams: () => readonly StreamMetrics[]): Totals {
  const ended = createCounters()
  const pastOrigins = new Map<string, Writable<OriginTotals>>()
  const running = new Set<Parameters<Totals['add']>>()
  const names = new Set<string>()
  let undecoded = 0

  /**
   * Returns the name under which an origin is counted. An origin keeps its name, because its counts
   * must not fall.
   */
  function nameOf(origin: string): string {
    if (names.size < MAX_ORIGINS) names.add(origin)
    return names.has(origin) ? origin : OTHER
  }

  function addOrigin(origin: string, traffic: OriginTotals): void {
    addTraffic(pastOrigins, nameOf(origin), traffic)
  }

  return {
    countUndecoded() {
      undecoded++
    },
    add(...stream) {
      const [counters, origins] = stream
      running.add(stream)
      return function end() {
        if (!running.delete(stream)) return
        addCounters(ended, counters)
        for (const [origin, traffic] of origins) addOrigin(origin, traffic)
      }
    },
    addOrigin,
    read() {
      const counters = { ...ended }
      const origins = new Map(Array.from(pastOrigins, ([origin, past]) => [origin, { ...past }]))
      for (const [counts, traffics] of running) {
        addCounters(counters, counts)
        for (const [origin, traffic] of traffics) addTraffic(origins, nameOf(origin), traffic)
      }
      return { ...counters, undecoded, origins: Object.fromEntries(origins), streams: streams() }
    },
  }
}

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

function addCounters(to: StreamCounters, counters: Readonly<StreamCounters>): void {
  for (const name of Object.keys(to) as (keyof StreamCounters)[]) to[name] += counters[name]
}

function addTraffic(
  to: Map<string, Writable<OriginTotals>>,
  origin: string,
  traffic: OriginTotals,
): void {
  const sums = to.get(origin) ?? {
    received: 0,
    first: 0,
    outOfOrder: 0,
    verified: 0,
    verificationFailed: 0,
  }
  for (const name of originCounts) sums[name] += traffic[name]
  to.set(origin, sums)
}
