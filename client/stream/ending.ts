import { asError, DataStreamsError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import type { ScopeEvents } from '../contract/scope.js'
import type { OutageEvents } from './connection/stream-connections.js'
import type { StreamHandlers } from './events.js'
import type { Lifecycle } from './lifecycle.js'
import type { Reading } from './reading.js'
import type { Shards } from './shards/shards.js'
import type { StalenessWatch } from './staleness.js'

/** Milliseconds `close` waits at most. */
const CLOSE_TIMEOUT = 900

/** The parts of a stream that end with it. */
export interface EndingParts<Data> {
  readonly log: Log
  readonly life: Lifecycle
  readonly handlers: StreamHandlers<Data>
  readonly events: ScopeEvents
  readonly reading: Reading<Data>
  readonly staleness: StalenessWatch
  readonly shards: Shards
  readonly user: OutageEvents
}

/** The two ways in which a stream ends. */
export interface Ending {
  /** Its connections have ended: by themselves, or since it was closed. */
  end(reason: Error): void
  /** Closes it; settles within a second. */
  close(): Promise<void>
}

/** Ends a stream with its signal at the latest. */
export function createEnding<Data>(parts: EndingParts<Data>): Ending {
  const { log, life, handlers, events, reading, staleness, shards, user } = parts

  function end(reason: Error): void {
    staleness.stop()
    if (!handlers.isClosed) {
      life.beginEnding(reason)
      events.emit('ending', reason)
      reading.emitExcess()
    }
    // A handler may have closed the stream by now.
    if (handlers.isClosed) void atMost(CLOSE_TIMEOUT, reading.flush()).then(life.finish)
    else {
      const error = life.failure ?? reason
      reading.consumption.end(error)
      void reading.flush()
      log.error?.(`the stream has ended: ${error.message}`)
      failConnections(shards, error)
      handlers.emit('error', error)
      user.onDown()
      life.fail(error)
    }
    handlers.clear()
  }

  async function close(): Promise<void> {
    handlers.close()
    reading.consumption.end()
    life.close(new DataStreamsError('the stream was closed', { code: 'CLOSED' }))
    // A plugin that ignores its signal does not hold up `close`. What was taken after a failure is saved as well.
    await atMost(CLOSE_TIMEOUT, life.closed.catch(reading.flush))
  }

  life.defer(() => {
    // After a failure, reports that wait can still be taken.
    if (life.phase === 'failed') return
    handlers.close()
    reading.consumption.end()
    if (!life.isStarted) end(asError(life.signal.reason))
  })

  return { end, close }
}

function failConnections(shards: Shards, error: Error): void {
  for (const shard of shards.all)
    for (const { facts, status } of [...shard.registry.all.values()])
      if (status !== 'failed') shard.change({ type: 'failed', error, ...facts })
}

/** Resolves when the work has, or after so many milliseconds. */
async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const enough = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, enough])
  clearTimeout(timer)
}
