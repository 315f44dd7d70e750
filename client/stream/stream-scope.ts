import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import type { Report } from '../../report/report.js'
import type { Sink } from '../contract/plugin.js'
import type { Connections, PluginClient, ScopeEvents, StreamScope } from '../contract/scope.js'
import type { FlowControl } from './connection/flow-control.js'
import type { Cursors } from './cursors.js'
import type { Lifecycle } from './lifecycle.js'
import type { Origins } from './origins.js'
import type { StalenessWatch } from './staleness.js'
import type { StreamCounters } from './stream-api.js'

/** What the scope of a stream is made of. */
export interface StreamScopeParts {
  readonly log: Log
  readonly life: Lifecycle
  clientOf(scope: StreamScope): PluginClient
  readonly connections: Connections
  readonly events: ScopeEvents
  readonly counters: StreamCounters
  readonly origins: Origins
  readonly staleness: StalenessWatch
  readonly flowControl: FlowControl
  readonly cursors: Cursors | undefined
  feedIDs(): readonly string[]
  /** Where the stream resumes, once its cursors are loaded. */
  resumed(): ReadonlyMap<string, number>
  room(): Promise<void>
  /** The bottom of the stack. */
  sink(): Sink
}

/** Makes the scope of a stream: what its plugins see of it. */
export function createStreamScope(parts: StreamScopeParts): StreamScope {
  const { life, counters, origins, staleness, flowControl } = parts
  /** The work of stages on each report that is being injected. */
  const injected = new WeakMap<Report, Promise<unknown>[]>()

  async function inject(report: Report): Promise<void> {
    const works: Promise<unknown>[] = []
    injected.set(report, works)
    try {
      parts.sink()(report)
    } catch (thrown) {
      const error = asError(thrown)
      parts.log.error?.(error.message)
      parts.events.emit('error', error)
    }
    // A stage that passes it on later may lead to another that does so, too.
    for (let work = works.shift(); work !== undefined; work = works.shift()) await work
    injected.delete(report)
  }

  let client: PluginClient | undefined
  const scope: StreamScope = {
    kind: 'stream',
    get feedIDs() {
      return parts.feedIDs()
    },
    log: parts.log,
    signal: life.signal,
    defer: life.defer,
    get client() {
      client ??= parts.clientOf(scope)
      return client
    },
    connections: parts.connections,
    events: parts.events,
    cursors: {
      get: feedID => parts.resumed().get(feedID),
      limit(feedID, time) {
        const { phase } = life
        // What is open when a feed is unsubscribed, or when the stream ends, is left to another stream.
        if (!staleness.feeds.has(feedID)) return
        if (phase === 'idle' || phase === 'running') parts.cursors?.limit(feedID, time)
        else if (time !== undefined && (phase === 'failing' || phase === 'ending'))
          parts.cursors?.lower(feedID, time)
      },
    },
    flow: {
      room: parts.room,
      pause() {
        const pause = {
          get hasUnpausable() {
            return flowControl.hasUnpausable
          },
          resume: () => flowControl.resume(pause),
        }
        flowControl.pause(pause)
        return pause
      },
    },
    count(as, report) {
      counters[as]++
      if (report === undefined || as === 'redelivered' || as === 'deadLetters') return
      if (as === 'verificationFailed' && report.source === 'live') staleness.uncount(report.feedID)
      if (as === 'deduplicated' || as === 'superseded' || as === 'ahead') return
      const traffic = origins.find(report.origin)
      if (traffic !== undefined) traffic[as]++
    },
    inject,
    waitUntil(work, report) {
      work.catch(() => undefined)
      injected.get(report)?.push(work)
    },
  }
  return scope
}
