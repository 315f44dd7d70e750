import { ValidationError } from '../../../core/errors.js'

/** A new shard for the feeds `to`. It replaces the shard `from`, if there is one. */
export interface ShardChange<Shard> {
  readonly from: Shard | undefined
  /** Empty if the shard `from` is no longer needed and gets no successor. */
  readonly to: readonly string[]
}

/**
 * The most characters in a URL's path and query. Servers commonly accept lines and headers of 8
 * KiB.
 */
const MAX_TARGET = 7500
/** The characters that a feed takes in a URL: its id and a comma. */
const FEED_LENGTH = 67
/**
 * Connections that shards leave free, because a change of feeds opens new ones before it closes the
 * old ones.
 */
const SPARE = 2

/** Makes the URL of a stream. Only this URL tells the service which feeds are subscribed to. */
export function streamURL(base: string, feedIDs: readonly string[]): string {
  return `${base}/api/v1/ws?feedIDs=${feedIDs}`
}

/** Returns how many feeds fit into the stream's URL with any of these bases. */
export function shardCapacity(bases: readonly string[]): number {
  const lengths = bases.map(base => {
    const { pathname, search } = new URL(streamURL(base, []))
    return pathname.length + search.length
  })
  return Math.max(1, Math.floor((MAX_TARGET - Math.max(...lengths) + 1) / FEED_LENGTH))
}

/** Returns the most shards of a stream that may have `maxConnections` connections. */
export function maxShards(maxConnections: number): number {
  return Math.max(1, maxConnections - SPARE)
}

/**
 * Plans the changes after which the shards carry exactly the wanted feeds. Carried feeds stay in
 * their shards. New feeds first fill the room in existing shards, then new shards. Throws
 * ValidationError if there would be too many shards.
 */
export function planShards<Shard extends { readonly feedIDs: readonly string[] }>(
  shards: readonly Shard[],
  wanted: readonly string[],
  capacity: number,
  most: number,
): readonly ShardChange<Shard>[] {
  const missing = new Set(wanted)
  const groups: { from: Shard | undefined; to: string[] }[] = shards.map(from => ({
    from,
    to: from.feedIDs.filter(feedID => missing.delete(feedID)),
  }))
  const rest = [...missing]
  for (const { to } of groups) to.push(...rest.splice(0, capacity - to.length))
  while (rest.length > 0) groups.push({ from: undefined, to: rest.splice(0, capacity) })
  const count = groups.filter(({ to }) => to.length > 0).length
  if (count > most) {
    throw new ValidationError(
      `feedIDs: ${wanted.length} feeds need ${count} connections of ${capacity} feeds, and ${most} are the most for one stream, by its maxConnections: the service allows a user 20 at once`,
    )
  }
  return groups.filter(
    ({ from, to }) =>
      from?.feedIDs.length !== to.length || to.some((id, at) => id !== from.feedIDs[at]),
  )
}
