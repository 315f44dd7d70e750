import type { Log } from '../../core/log.js'
import type { OutageEvents } from './connection/stream-connections.js'
import type { StreamHandlers } from './events.js'
import type { Lifecycle } from './lifecycle.js'
import { detailsOf } from './metrics.js'
import type { ShardParts } from './shards/shard.js'

/** What the events of a stream's connections need. */
export interface ConnectionEventsParts<Data> {
  readonly log: Log
  readonly life: Lifecycle
  readonly handlers: StreamHandlers<Data>
  /** True where there are connections to several origins. */
  isMultiple(): boolean
}

/** Tells the stream's user when connections open and are lost. */
export function createConnectionEvents<Data>({
  log,
  life,
  handlers,
  isMultiple,
}: ConnectionEventsParts<Data>): OutageEvents & Pick<ShardParts, 'onConnection'> {
  let isDown = false
  return {
    onUp() {
      isDown = false
      if (!life.isOpened)
        log.info?.(`connection mode: ${isMultiple() ? 'high availability' : 'single'}`)
      handlers.emit('connected')
      life.open()
    },
    onDown() {
      if (isDown) return
      isDown = true
      handlers.emit('disconnected')
    },
    onAllLost: () => handlers.emit('all-connections-lost'),
    onConnection(isConnected, connection, isRestored) {
      handlers.connectionChanged(isConnected, connection.facts)
      if (!isConnected)
        handlers.emit('connection-lost', detailsOf(connection), connection.lastError)
      else if (isRestored) handlers.emit('connection-restored', detailsOf(connection))
    },
  }
}
