import { asError, DataStreamsError, ValidationError } from '../../../core/errors.js'
import type { ShardChange } from './plan.js'
import { createLane, type Lane, type LaneParts } from './shard.js'

/** The lanes that carry a stream between them. */
export interface Lanes {
  /** Those in force. */
  readonly all: readonly Lane[]
  /** How many connections they have open. */
  readonly open: number
  /** The feeds of those that have none open. */
  readonly uncovered: readonly string[]
  /** Starts a lane for each of these groups of feeds. */
  start(groups: readonly (readonly string[])[]): void
  /** The service refuses some of the stream's feeds. */
  deny(feedIDs: readonly string[], error: Error): void
  /**
   * Replaces lanes, make before break: once all the new ones are open, they are in force, `commit` is called, and then the
   * old ones are ended. Waits first for those that earlier changes have replaced, where the connections would be too many.
   * Rejects when one of the new can't be had, or the change is refused, and changes nothing then.
   */
  change(changes: readonly ShardChange<Lane>[], purpose: ChangePurpose): Promise<void>
}

/** What lanes are changed for. Both hear which feeds the service has refused the new ones. */
export interface ChangePurpose {
  /** Throws where nothing should change. */
  check(denied: Denials): void
  /** The change is in force. */
  commit(denied: Denials): void
}

/** Feeds that the service refuses, with why. */
export type Denials = ReadonlyMap<string, Error>

/** What a stream hears of its lanes. */
export interface LanesParts extends Omit<LaneParts, 'changed' | 'denied' | 'sockets' | 'nextID'> {
  /** Hears of changes of the lanes in force, before `up` and `down`. */
  changed: LaneParts['changed']
  /** Every lane has an open connection. */
  up(): void
  /** One of them has none any more. */
  down(): void
  /** None of them has one any more. */
  allLost(): void
  /** The service refuses these feeds, which were in force. False where no other is subscribed to. */
  denied(feedIDs: readonly string[], error: Error): boolean
  /** A lane in force has ended for good; or the stream has, and nothing of the lanes is left. */
  ended(error: Error): void
}

/** A new lane should have as many connections as the one before it; for those it lacks we wait so many milliseconds. */
const PATIENCE = 1000
/**
 * So many milliseconds a lane outlasts its successor's opening: what the service had published by then may still be on its
 * way to the old connections. After that they say goodbye, and what comes before the answer is taken too.
 */
const LINGER = 250

/** A lane that is to come, and the one it takes over from. */
interface Succession {
  readonly from: Lane | undefined
  readonly lane: Lane
}

/** Keeps a stream's lanes; at first there are none. */
export function createLanes(parts: LanesParts): Lanes {
  const { origins, maxConnections } = parts
  const { signal } = parts.scope
  let inForce: readonly Lane[] = []
  const running = new Set<Lane>()
  const sockets = { open: 0 }
  let isUp = false
  let hasOpen = false
  let isOver = false
  let connections = 0
  const nextID = (): string => `conn-${connections++}`

  function open(feedIDs: readonly string[], isInForce: boolean): Lane {
    const own = { ...parts, sockets, nextID, changed, denied: forgo }
    const lane = createLane(own, feedIDs, isInForce)
    running.add(lane)
    void lane.ended.then(error => ended(lane, error))
    return lane
  }

  function changed(status: Parameters<LaneParts['changed']>[0]): void {
    parts.changed(status)
    if (status.type === 'left') forgetOrigins()
    judge()
  }

  /** A lane goes on with the feeds that are left of it; one that has none leaves, unless it is the last. */
  function forgo(lane: Lane, feedIDs: readonly string[], error: Error): void {
    if (feedIDs.length === lane.feedIDs.length && inForce.length === 1) return
    lane.forgo(feedIDs)
    if (!parts.denied(feedIDs, error)) {
      lane.end(error)
      return
    }
    if (!isEmpty(lane)) return
    inForce = inForce.filter(each => each !== lane)
    lane.isInForce = false
    tellOfLeaving(lane, undefined)
    lane.end(error)
    judge()
  }

  function judge(): void {
    const wasUp = isUp
    isUp = inForce.every(lane => lane.connections.open > 0)
    if (isUp && !wasUp) parts.up()
    else if (wasUp && !isUp) parts.down()
    const hadOpen = hasOpen
    hasOpen = countOpen() > 0
    if (hadOpen && !hasOpen) parts.allLost()
  }

  function countOpen(): number {
    return inForce.reduce((sum, lane) => sum + lane.connections.open, 0)
  }

  function forgetOrigins(): void {
    origins.keep(Array.from(running, ({ connections }) => connections))
  }

  function ended(lane: Lane, error: Error): void {
    running.delete(lane)
    if (isOver) return
    if (signal.aborted ? running.size === 0 : lane.isInForce) {
      isOver = true
      parts.ended(error)
    } else if (!signal.aborted) forgetOrigins()
  }

  /** Waits until new lanes in place of these have room for their connections, while old ones are on their way out. */
  async function waitForRoom(replaced: readonly (Lane | undefined)[]): Promise<void> {
    const usual = Math.max(1, ...inForce.map(sizeOf))
    const needed = sum(replaced.map(lane => (lane === undefined ? usual : sizeOf(lane))))
    for (;;) {
      const taken = sum([...running].map(sizeOf))
      if (needed === 0 || taken + needed <= maxConnections) return
      const leaving = [...running].filter(lane => !inForce.includes(lane))
      if (leaving.length === 0) {
        throw new ValidationError(
          `maxConnections: the change of feeds takes ${needed} connections besides the ${taken} there are, and ${maxConnections} are the most`,
        )
      }
      await Promise.race(leaving.map(({ ended }) => ended))
      signal.throwIfAborted()
    }
  }

  function retire(lane: Lane): void {
    const timer = setTimeout(
      () => lane.end(new DataStreamsError('other connections took over', { code: 'CLOSED' })),
      LINGER,
    )
    void lane.ended.then(() => clearTimeout(timer))
  }

  /** Tells of what is different with the new lane, as if it had been the same connections all along. */
  function tellDifference({ from, lane }: Succession): void {
    for (const [name, error] of lane.failures)
      if (from?.failures.get(name)?.message !== error.message) parts.scope.fail(error)
    for (const [origin, connection] of lane.connections.all) {
      const { last, open } = connection
      const before = from?.connections.all.get(origin)
      if (open > 0 !== (before?.open ?? 0) > 0)
        parts.announce(open > 0, connection, before !== undefined)
      if (before?.last.type !== last.type) parts.changed(last)
    }
    if (from !== undefined) tellOfLeaving(from, lane)
  }

  function tellOfLeaving(from: Lane, lane: Lane | undefined): void {
    for (const [origin, connection] of from.connections.all) {
      if (lane?.connections.all.has(origin)) continue
      if (connection.open > 0) parts.announce(false, connection, false)
      parts.changed({ type: 'left', ...connection.facts })
    }
  }

  return {
    get all() {
      return inForce
    },
    get open() {
      return countOpen()
    },
    get uncovered() {
      return inForce.flatMap(({ connections, feedIDs }) => (connections.open > 0 ? [] : feedIDs))
    },
    start(groups) {
      inForce = groups.map(feedIDs => open(feedIDs, true))
    },
    deny(feedIDs, error) {
      for (const lane of inForce) lane.deny(feedIDs, error)
    },
    async change(changes, { check, commit }) {
      await waitForRoom(changes.flatMap(({ from, to }) => (to.length > 0 ? [from] : [])))
      const opened = changes
        .filter(({ to }) => to.length > 0)
        .map(({ from, to }) => ({ from, lane: open(to, false) }))
      const leaving = changes.flatMap(({ from }) => from ?? [])
      let denied: Denials
      try {
        await allOpen(opened)
        signal.throwIfAborted()
        denied = new Map(opened.flatMap(({ lane }) => [...lane.denials]))
        check(denied)
      } catch (error) {
        for (const { lane } of opened) lane.end(asError(error))
        throw error
      }
      const successions = opened.filter(({ lane }) => !isEmpty(lane))
      const successorOf = new Map(successions.map(({ from, lane }) => [from, lane]))
      for (const lane of leaving) lane.isInForce = false
      for (const { lane } of successions) lane.isInForce = true
      const before = inForce
      inForce = [
        ...before.flatMap(lane => (leaving.includes(lane) ? (successorOf.get(lane) ?? []) : lane)),
        // The one it takes over from may be gone by now.
        ...successions.flatMap(({ from, lane }) =>
          from === undefined || !before.includes(from) ? lane : [],
        ),
      ]
      commit(denied)
      for (const succession of successions) tellDifference(succession)
      for (const lane of leaving) {
        if (!successorOf.has(lane)) tellOfLeaving(lane, undefined)
        retire(lane)
      }
      judge()
    },
  }
}

/**
 * Resolves when all these lanes have an open connection at the same time, and as many of them as the lanes before, if they
 * come soon. Rejects when one can't be had.
 */
function allOpen(successions: readonly Succession[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const unwatch = successions.map(({ lane }) => lane.watch(look))
    for (const { lane } of successions) {
      void lane.ended.then(error => {
        if (isEmpty(lane)) return look()
        stop()
        reject(error)
      })
    }
    look()

    function stop(): void {
      clearTimeout(timer)
      for (const each of unwatch) each()
    }

    function look(): void {
      const isLacking = successions.some(
        ({ lane }) => lane.connections.open === 0 && !isEmpty(lane),
      )
      if (isLacking) {
        clearTimeout(timer)
        timer = undefined
      } else if (successions.every(isAsGood)) done()
      else timer ??= setTimeout(done, PATIENCE)
    }

    function done(): void {
      stop()
      resolve()
    }
  })
}

/** How many connections a lane has, or will have. */
function sizeOf({ connections }: Lane): number {
  return Math.max(1, connections.all.size)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

/** The service has refused all its feeds. */
function isEmpty({ feedIDs }: Lane): boolean {
  return feedIDs.length === 0
}

function isAsGood({ from, lane }: Succession): boolean {
  if (isEmpty(lane)) return true
  return lane.connections.open >= (from?.connections.open ?? 0)
}
