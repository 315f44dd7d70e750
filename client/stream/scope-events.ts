import type { Log } from '../../core/log.js'
import { type OptionNames, unknownName } from '../../core/options.js'
import type { ScopeEventMap, ScopeEvents } from '../contract/scope.js'
import type { Status } from '../contract/status.js'
import { callListeners, type StreamHandlers } from './events.js'
import type { StreamCounters } from './stream-api.js'

type Listener = (value: never) => void

/** The client's own events. A plugin may add its own to the type, and declares them itself. */
const eventNames = {
  gap: true,
  'gap-filled': true,
  conflict: true,
  error: true,
  status: true,
  ending: true,
} satisfies Partial<OptionNames<ScopeEventMap>>

/**
 * Makes the events of a stream's scope, including the events that plugins declare. Plugins are told
 * of an event first, then the stream's user.
 */
export function createScopeEvents<Data>(
  log: Log,
  handlers: StreamHandlers<Data>,
  counters: StreamCounters,
  declared: readonly string[],
): ScopeEvents {
  const known: readonly string[] = [...Object.keys(eventNames), ...declared]
  const listeners = new Map<keyof ScopeEventMap, Set<Listener>>()

  return {
    emit(name, value) {
      const event = name as keyof ScopeEventMap
      if (event === 'gap') counters.gaps++
      logEvent(log, event, value as ScopeEventMap[typeof event])
      const added = listeners.get(event)
      // On `ending`, the plugin nearest to the wire is called first, so that the plugins above it
      // get the reports that it passes on.
      if (added !== undefined && added.size > 0)
        callListeners(log, event, event === 'ending' ? [...added].reverse() : added, value as never)
      if (event === 'ending') return
      handlers.emit(event, value)
      if (event === 'status' && (value as Status).type === 'reconnecting')
        handlers.emit('reconnecting', value)
    },
    on(event, listener) {
      if (!known.includes(String(event))) throw unknownName('event', String(event), known)
      const added = listeners.get(event as keyof ScopeEventMap) ?? new Set()
      listeners.set(event as keyof ScopeEventMap, added.add(listener as Listener))
      return () => void added.delete(listener as Listener)
    },
  }
}

function logEvent<Name extends keyof ScopeEventMap>(
  log: Log,
  event: Name,
  value: ScopeEventMap[Name],
): void {
  if (event === 'status') logStatus(log, value as Status)
  else if (event === 'conflict') {
    const { first, other } = value as ScopeEventMap['conflict']
    log.warn?.(`two reports of feed ${first.feedID} at ${first.observationsTimestamp} differ`, {
      origins: [first.origin, other.origin],
    })
  } else if (event === 'gap-filled') {
    const { feedID, observationsTimestamp } = (value as ScopeEventMap['gap-filled']).report
    log.info?.(
      `the report of feed ${feedID} at ${observationsTimestamp} came after its gap was announced`,
    )
  }
}

const waitsFor = {
  signers: 'its signers are being looked up',
  recovery: 'more come than can be verified',
} as const

function logStatus(log: Log, status: Status): void {
  const { type } = status
  if (type === 'stale')
    log.warn?.(`no report for ${status.staleMs} ms of ${status.feedIDs.join(', ')}`)
  else if (type === 'fresh') log.info?.(`reports again of ${status.feedIDs.join(', ')}`)
  else if (type === 'subscribed' || type === 'unsubscribed')
    log.info?.(`${type}: ${status.feedIDs.join(', ')}`)
  else if (type === 'ahead')
    log.warn?.(
      `reports are dated ${Math.round(status.aheadMs / 1000)} s after the present: ${status.feedIDs.join(', ')}`,
    )
  else if (type === 'behind')
    log.warn?.(
      `${status.waiting} reports wait to be verified, the oldest for ${status.oldestMs} ms: ${waitsFor[status.cause]}`,
    )
  else if (type === 'caught-up') log.info?.('reports are verified in time again')
  else if (type === 'degraded') {
    const { origin, host, delayMs } = status
    const seconds = Math.round(delayMs / 1000)
    log.warn?.(`${host} goes on rejecting: it is asked slowly, next in ${seconds} s`, {
      origin,
      host,
    })
  }
}
