import { ValidationError } from '../../../core/errors.js'

/**
 * Feeds that are to travel over other connections than now: in place of a shard, or in a new one.
 */
export interface ShardChange<Shard> {
  readonly from: Shard | undefined
  /** Empty where the shard is no longer needed. */
  readonly to: readonly string[]
}

/** Characters of a URL's path and query: servers commonly take lines and headers of 8 KiB. */
const MAX_TARGET = 7500
/** A feed id and a comma. */
const FEED_LENGTH = 67
/** Changing feeds needs connections to spare. */
const SPARE = 2

/** The URL of a stream; the service knows by it alone what is subscribed to. */
export function streamURL(base: string, feedIDs: readonly string[]): string {
  return `${base}/api/v1/ws?feedIDs=${feedIDs}`
}

/** How many feeds the stream's URL can hold, whichever of these it begins with. */
export function shardCapacity(bases: readonly string[]): number {
  const lengths = bases.map(base => {
    const { pathname, search } = new URL(streamURL(base, []))
    return pathname.length + search.length
  })
  return Math.max(1, Math.floor((MAX_TARGET - Math.max(...lengths) + 1) / FEED_LENGTH))
}

/** How many shards a stream may have that has so many connections at most. */
export function maxShards(maxConnections: number): number {
  return Math.max(1, maxConnections - SPARE)
}

/**
 * What has to change for exactly these feeds to be carried: feeds stay where they are, and new ones
 * go where there is room before there are further shards. Throws ValidationError where there would
 * be too many.
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
