import { checkBoolean, checkNumber, checkOptions, checkSignal, MAX_TIMER } from './options.js'

/** Options of one stream. */
export interface StreamOptions {
  /** How many dials in a row may fail before the stream gives up; `Infinity` never does. @default 5 */
  readonly maxReconnectAttempts?: number
  /**
   * Milliseconds before the first reconnection, doubled for each further one up to 10000, with jitter. Clamped to 200
   * to 10000. @default 1000
   */
  readonly reconnectInterval?: number
  /** Milliseconds a connection may take to open. @default 5000 */
  readonly connectTimeout?: number
  /** Milliseconds between two pings. @default 2000 */
  readonly pingInterval?: number
  /** Pings in a row that nothing answers, before a connection counts as dead. @default 3 */
  readonly missedPings?: number
  /** Milliseconds without a report before a feed is announced as stale; 0 never does. @default 30000 */
  readonly staleAfter?: number
  /** Offer permessage-deflate: about a third of the bytes for more work on each message. @default false */
  readonly compression?: boolean
  /** Aborting it closes the stream. */
  readonly signal?: AbortSignal
}

/** The options of a stream, each with a value that holds its rule. */
export type CheckedStreamOptions = Required<Omit<StreamOptions, 'signal'>> &
  Pick<StreamOptions, 'signal'>

const MIN_INTERVAL = 200
const MAX_INTERVAL = 10_000

/** Checks a stream's options and fills in what is missing. Throws ValidationError naming the option. */
export function checkStreamOptions(options: StreamOptions): CheckedStreamOptions {
  const {
    maxReconnectAttempts = 5,
    reconnectInterval = 1000,
    connectTimeout = 5000,
    pingInterval = 2000,
    missedPings = 3,
    staleAfter = 30_000,
    compression = false,
    signal,
  } = checkOptions('options', options)
  checkNumber('reconnectInterval', reconnectInterval, { min: 0 })
  return {
    maxReconnectAttempts: checkNumber('maxReconnectAttempts', maxReconnectAttempts, {
      min: 0,
      whole: true,
      infinite: true,
    }),
    reconnectInterval: Math.min(MAX_INTERVAL, Math.max(MIN_INTERVAL, reconnectInterval)),
    connectTimeout: checkNumber('connectTimeout', connectTimeout, { min: 1, max: MAX_TIMER }),
    pingInterval: checkNumber('pingInterval', pingInterval, { min: 10, max: MAX_TIMER }),
    missedPings: checkNumber('missedPings', missedPings, { min: 1, whole: true }),
    staleAfter: checkNumber('staleAfter', staleAfter, { min: 0, max: MAX_TIMER }),
    compression: checkBoolean('compression', compression),
    ...(checkSignal('signal', signal) === undefined ? {} : { signal: signal as AbortSignal }),
  }
}
