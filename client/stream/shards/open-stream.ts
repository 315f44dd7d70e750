import { DataStreamsError } from '../../../core/errors.js'
import type { StreamCall, StreamReply } from '../../contract/call.js'
import type { StreamScope } from '../../contract/scope.js'

/** A shard's scope has a function under this key, which opens the connection of a call. */
export const openKey: unique symbol = Symbol('open')

/** The scope of a shard's call. */
export interface ShardScope extends StreamScope {
  readonly [openKey]: (call: StreamCall) => Promise<StreamReply>
}

/** Opens the connection of a stream call. This is the wire, below all layers. */
export function openStream(call: StreamCall): Promise<StreamReply> {
  const open = (call.scope as Partial<ShardScope>)[openKey]
  if (open !== undefined) return open(call)
  const message = 'only the scope of a call opens its connection'
  return Promise.reject(new DataStreamsError(message, { code: 'PLUGIN' }))
}
