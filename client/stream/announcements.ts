import type { Log } from '../../core/log.js'
import type { StreamScope } from '../scope.js'
import type { Status } from '../status.js'
import type { StreamHandlers } from './events.js'
import type { Origins } from './origins.js'
import type { StreamCounters } from './stream-api.js'

/** The part of a stream's scope that tells: its user, whoever watches, the log and the counters. */
export type Announcements = Pick<
  StreamScope,
  'count' | 'status' | 'watch' | 'gap' | 'conflict' | 'fail'
>

/** What announcements need of their stream. */
export interface AnnouncementsParts<Data> {
  readonly log: Log
  readonly handlers: StreamHandlers<Data>
  readonly counters: StreamCounters
  readonly origins: Origins
  /** Hears of what is no change of a connection. */
  hear(status: Status): void
}

/** Tells of what happens to a stream. */
export function createAnnouncements<Data>(parts: AnnouncementsParts<Data>): Announcements {
  const { log, handlers, counters, origins, hear } = parts
  const { emit } = handlers
  const watchers = new Set<(status: Status) => void>()

  function write(status: Status): void {
    if (status.type === 'stale')
      log.warn?.(`no report for ${status.staleMs} ms of ${status.feedIDs.join(', ')}`)
    else if (status.type === 'fresh') log.info?.(`reports again of ${status.feedIDs.join(', ')}`)
    else if (status.type === 'subscribed' || status.type === 'unsubscribed')
      log.info?.(`${status.type}: ${status.feedIDs.join(', ')}`)
    else if (status.type === 'degraded') {
      const { origin, host, delayMs } = status
      const seconds = Math.round(delayMs / 1000)
      log.warn?.(`${host} goes on refusing: it is dialled slowly, next in ${seconds} s`, {
        origin,
        host,
      })
    }
  }

  return {
    count(as, { origin }) {
      counters[as]++
      if (as === 'deduplicated') return
      const traffic = origins.find(origin)
      if (traffic !== undefined) traffic[as]++
    },
    status(status) {
      write(status)
      for (const watcher of watchers) watcher(status)
      if (!('origin' in status)) hear(status)
      emit('status', status)
      if (status.type === 'reconnecting') emit('reconnecting', status)
    },
    watch(listener) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    gap(gap) {
      counters.gaps++
      emit('gap', gap)
    },
    conflict(first, other) {
      const { feedID, observationsTimestamp } = first
      log.warn?.(`two reports of feed ${feedID} at ${observationsTimestamp} differ`, {
        origins: [first.origin, other.origin],
      })
      emit('conflict', { first, other })
    },
    fail: error => emit('error', error),
  }
}
