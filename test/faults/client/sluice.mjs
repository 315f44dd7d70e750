// What the client program needs to know of sluice.
import {
  bearerAuth,
  continuity,
  createClient as create,
  decoders,
  dedup,
  isStreamsError,
  retry,
} from 'sluice'
import { fileCursors } from 'sluice/stores'

export { fileCursors }
export const isOwnError = error => isStreamsError(error)
export const events = ['connected', 'disconnected', 'reconnecting', 'gap', 'conflict', 'status']
export const reportsOf = stream => stream

/** A client with keys; or with a token, for a gateway that has the keys, so that nothing here signs. */
export function createClient({ token, apiKey, userSecret, ...config }) {
  if (token === undefined) return create({ apiKey, userSecret, ...config })
  const plugins = [decoders(), continuity(), dedup(), retry(), bearerAuth({ token })]
  return create({ ...config, plugins })
}
