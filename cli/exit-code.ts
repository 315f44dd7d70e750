import { type ErrorCode, isStreamsError } from '../core/errors.js'

const codes: { readonly [Code in ErrorCode]?: number } = {
  VALIDATION: 2,
  AUTHENTICATION: 3,
  API_STATUS: 4,
  API_TIMEOUT: 4,
  API_NETWORK: 4,
  API_RESPONSE: 4,
  WS_CONNECT: 4,
  WS_REFUSED: 4,
  WS_LOST: 4,
  WS_GAVE_UP: 4,
  DECODING: 5,
}

/** How a command ends: 0 well, 2 wrong arguments, 3 not let in, 4 the network or the service, 5 a bad report, 1 else. */
export function exitCodeOf(thrown: unknown): number {
  return isStreamsError(thrown) ? (codes[thrown.code] ?? 1) : 1
}
