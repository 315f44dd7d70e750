import { asError, DataStreamsError, ValidationError } from '../../../core/errors.js'
import type { ShardChange } from './plan.js'
import { createShard, type Shard, type ShardParts } from './shard.js'

/** The shards that carry a stream between them. */
export interface Shards {
  /** Those in force. */
  readonly all: readonly Shard[]
  /** How many connections they have open. */
  readonly open: number
  /** The feeds of those that have none open. */
  readonly uncovered: readonly string[]
  /** Starts a shard for each of these groups of feeds. */
  start(groups: readonly (readonly string[])[]): void
  /** The service refuses some of the stream's feeds. */
  deny(feedIDs: readonly string[], error: Error): void
  /**
   * Replaces shards, make before break: once all the new ones are open, they are in force, `commit` is called, and then the
   * old ones are ended. Waits first for those that earlier changes have replaced, where the connections would be too many.
   * Rejects when one of the new can't be had, or the change is refused, and changes nothing then.
   */
  change(changes: readonly ShardChange<Shard>[], purpose: ChangePurpose): Promise<void>
}

/** What shards are changed for. Both hear which feeds the service has refused the new ones. */
export interface ChangePurpose {
  /** Throws where nothing should change. */
  check(denied: Denials): void
  /** The change is in force. */
  commit(denied: Denials): void
}

/** Feeds that the service refuses, with why. */
export type Denials = ReadonlyMap<string, Error>

/** What a stream hears of its shards. */
export interface ShardsParts extends Omit<ShardParts, 'changed' | 'denied' | 'sockets' | 'nextID'> {
  /** Hears of changes of the shards in force, before `up` and `down`. */
  changed: ShardParts['changed']
  /** Every shard has an open connection. */
  up(): void
  /** One of them has none any more. */
  down(): void
  /** None of them has one any more. */
  allLost(): void
  /** The service refuses these feeds, which were in force. False where no other is subscribed to. */
  denied(feedIDs: readonly string[], error: Error): boolean
  /** A shard in force has ended for good; or the stream has, and nothing of the shards is left. */
  ended(error: Error): void
}

/** A new shard should have as many connections as the one before it; for those it lacks we wait so many milliseconds. */
const PATIENCE = 1000
/**
 * So many milliseconds a shard outlasts its successor's opening: what the service had published by then may still be on its
 * way to the old connections. After that they say goodbye, and what comes before the answer is taken too.
 */
const LINGER = 250

/** A shard that is to come, and the one it takes over from. */
interface Succession {
  readonly from: Shard | undefined
  readonly shard: Shard
}

/** Keeps a stream's shards; at first there are none. */
export function createShards(parts: ShardsParts): Shards {
  const { origins, maxConnections } = parts
  const { signal } = parts.scope
  let inForce: readonly Shard[] = []
  const running = new Set<Shard>()
  const sockets = { open: 0 }
  let isUp = false
  let hasOpen = false
  let isOver = false
  let connections = 0
  const nextID = (): string => `conn-${connections++}`

  function open(feedIDs: readonly string[], isInForce: boolean): Shard {
    const own = { ...parts, sockets, nextID, changed, denied: forgo }
    const shard = createShard(own, feedIDs, isInForce)
    running.add(shard)
    void shard.ended.then(error => ended(shard, error))
    return shard
  }

  function changed(status: Parameters<ShardParts['changed']>[0]): void {
    parts.changed(status)
    if (status.type === 'left') forgetOrigins()
    judge()
  }

  /** A shard goes on with the feeds that are left of it; one that has none leaves, unless it is the last. */
  function forgo(shard: Shard, feedIDs: readonly string[], error: Error): void {
    if (feedIDs.length === shard.feedIDs.length && inForce.length === 1) return
    shard.forgo(feedIDs)
    if (!parts.denied(feedIDs, error)) {
      shard.end(error)
      return
    }
    if (!isEmpty(shard)) return
    inForce = inForce.filter(each => each !== shard)
    shard.isInForce = false
    tellOfLeaving(shard, undefined)
    shard.end(error)
    judge()
  }

  function judge(): void {
    const wasUp = isUp
    isUp = inForce.every(shard => shard.connections.open > 0)
    if (isUp && !wasUp) parts.up()
    else if (wasUp && !isUp) parts.down()
    const hadOpen = hasOpen
    hasOpen = countOpen() > 0
    if (hadOpen && !hasOpen) parts.allLost()
  }

  function countOpen(): number {
    return inForce.reduce((sum, shard) => sum + shard.connections.open, 0)
  }

  function forgetOrigins(): void {
    origins.keep(Array.from(running, ({ connections }) => connections))
  }

  function ended(shard: Shard, error: Error): void {
    running.delete(shard)
    if (isOver) return
    if (signal.aborted ? running.size === 0 : shard.isInForce) {
      isOver = true
      parts.ended(error)
    } else if (!signal.aborted) forgetOrigins()
  }

  /** Waits until new shards in place of these have room for their connections, while old ones are on their way out. */
  async function waitForRoom(replaced: readonly (Shard | undefined)[]): Promise<void> {
    const usual = Math.max(1, ...inForce.map(sizeOf))
    const needed = sum(replaced.map(shard => (shard === undefined ? usual : sizeOf(shard))))
    for (;;) {
      const taken = sum([...running].map(sizeOf))
      if (needed === 0 || taken + needed <= maxConnections) return
      const leaving = [...running].filter(shard => !inForce.includes(shard))
      if (leaving.length === 0) {
        throw new ValidationError(
          `maxConnections: the change of feeds takes ${needed} connections besides the ${taken} there are, and ${maxConnections} are the most`,
        )
      }
      await Promise.race(leaving.map(({ ended }) => ended))
      signal.throwIfAborted()
    }
  }

  function retire(shard: Shard): void {
    const timer = setTimeout(
      () => shard.end(new DataStreamsError('other connections took over', { code: 'CLOSED' })),
      LINGER,
    )
    void shard.ended.then(() => clearTimeout(timer))
  }

  /** Tells of what is different with the new shard, as if it had been the same connections all along. */
  function tellDifference({ from, shard }: Succession): void {
    for (const [name, error] of shard.failures)
      if (from?.failures.get(name)?.message !== error.message) parts.scope.fail(error)
    for (const [origin, connection] of shard.connections.all) {
      const { last, open } = connection
      const before = from?.connections.all.get(origin)
      if (open > 0 !== (before?.open ?? 0) > 0)
        parts.announce(open > 0, connection, before !== undefined)
      if (before?.last.type !== last.type) parts.changed(last)
    }
    if (from !== undefined) tellOfLeaving(from, shard)
  }

  function tellOfLeaving(from: Shard, shard: Shard | undefined): void {
    for (const [origin, connection] of from.connections.all) {
      if (shard?.connections.all.has(origin)) continue
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
      for (const shard of inForce) shard.deny(feedIDs, error)
    },
    async change(changes, { check, commit }) {
      await waitForRoom(changes.flatMap(({ from, to }) => (to.length > 0 ? [from] : [])))
      const opened = changes
        .filter(({ to }) => to.length > 0)
        .map(({ from, to }) => ({ from, shard: open(to, false) }))
      const leaving = changes.flatMap(({ from }) => from ?? [])
      let denied: Denials
      try {
        await allOpen(opened)
        signal.throwIfAborted()
        denied = new Map(opened.flatMap(({ shard }) => [...shard.denials]))
        check(denied)
      } catch (error) {
        for (const { shard } of opened) shard.end(asError(error))
        throw error
      }
      const successions = opened.filter(({ shard }) => !isEmpty(shard))
      const successorOf = new Map(successions.map(({ from, shard }) => [from, shard]))
      for (const shard of leaving) shard.isInForce = false
      for (const { shard } of successions) shard.isInForce = true
      const before = inForce
      inForce = [
        ...before.flatMap(shard =>
          leaving.includes(shard) ? (successorOf.get(shard) ?? []) : shard,
        ),
        // The one it takes over from may be gone by now.
        ...successions.flatMap(({ from, shard }) =>
          from === undefined || !before.includes(from) ? shard : [],
        ),
      ]
      commit(denied)
      for (const succession of successions) tellDifference(succession)
      for (const shard of leaving) {
        if (!successorOf.has(shard)) tellOfLeaving(shard, undefined)
        retire(shard)
      }
      judge()
    },
  }
}

/**
 * Resolves when all these shards have an open connection at the same time, and as many of them as the shards before, if they
 * come soon. Rejects when one can't be had.
 */
function allOpen(successions: readonly Succession[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const unwatch = successions.map(({ shard }) => shard.watch(look))
    for (const { shard } of successions) {
      void shard.ended.then(error => {
        if (isEmpty(shard)) return look()
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
        ({ shard }) => shard.connections.open === 0 && !isEmpty(shard),
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

/** How many connections a shard has, or will have. */
function sizeOf({ connections }: Shard): number {
  return Math.max(1, connections.all.size)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

/** The service has refused all its feeds. */
function isEmpty({ feedIDs }: Shard): boolean {
  return feedIDs.length === 0
}

function isAsGood({ from, shard }: Succession): boolean {
  if (isEmpty(shard)) return true
  return shard.connections.open >= (from?.connections.open ?? 0)
}
