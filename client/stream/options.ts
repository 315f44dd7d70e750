import { ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkNumber,
  checkOptions,
  checkSignal,
  MAX_TIMER,
} from '../../core/options.js'
import type { CursorStore } from '../../stores/cursor-store.js'
import { type AcknowledgeMode, acknowledgeModes } from './queue/outstanding.js'
import { type OverflowPolicy, overflowPolicies } from './queue/queue.js'

/** Options of one stream. */
export interface StreamOptions {
  /** How many dials in a row may fail before the stream gives up; `Infinity` never does. @default 5 */
  maxReconnectAttempts?: number
  /**
   * Milliseconds before the first reconnection, doubled for each further one up to 10000, with jitter. Clamped to 200
   * to 10000. @default 1000
   */
  reconnectInterval?: number
  /** Milliseconds a connection may take to open. @default 5000 */
  connectTimeout?: number
  /**
   * Sockets that the stream has at once at most, those being closed included: a change of feeds waits until its connections
   * fit, and one that can't is refused. The service allows a user 20; the default leaves two for those that it has not
   * noticed are closed. Streams of one user, in whatever process, share the 20. @default 18
   */
  maxConnections?: number
  /** Milliseconds between two pings. @default 2000 */
  pingInterval?: number
  /** Pings in a row that nothing answers, before a connection counts as dead. @default 3 */
  missedPings?: number
  /** Milliseconds without a report before a feed is announced as stale; 0 never does. @default 30000 */
  staleAfter?: number
  /** Offer permessage-deflate: about a third of the bytes for more work on each message. @default false */
  compression?: boolean
  /**
   * Reports that wait to be taken, before `overflow` decides. With neither a `report` handler nor a loop they wait from
   * `connect` on; beside a handler only a loop's wait. 0 is for a stream that only plugins read, or handlers: nothing waits,
   * what comes without a handler is gone, and `read` and iteration are refused. @default 1024
   */
  queue?: number
  /**
   * What becomes of reports when they are taken too slowly, once `queue` of them wait. `block` holds the connections
   * back, and drops nothing; a connection that a `connect` of your own opened without `pause` and `resume` can't be held
   * back, so with one of these the stream ends when twice as many wait. `drop-oldest` drops the report that has waited
   * longest, `latest-per-feed` the one of the same feed that has, if there is one; what is dropped is counted, and
   * announced as gaps. `close` ends the stream. @default 'block'
   */
  overflow?: OverflowPolicy
  /**
   * When a report counts as taken, and its cursor may pass it. `automatic`: once its handlers have returned, and what they
   * promised has settled, kept or not; or once its reader asks for the next one. `manual`: when you call
   * `report.acknowledge()`, in any order, and never without that. With `cursors` or `manual`, whatever
   * `overflow` says, the connections are held back while `queue` reports have been given out and are not taken; so with
   * `queue: 0` there is no `manual`. Without either, nobody waits for what handlers promise.
   * @default 'automatic'
   */
  acknowledge?: AcknowledgeMode
  /**
   * Where is kept how far you have come, feed by feed: a stream with the same store goes on from there, and what was missed
   * meanwhile is fetched. `fileCursors` of `sluice/stores` keeps it in a file.
   */
  cursors?: CursorStore
  /** Milliseconds between two savings of the cursors: what you took since then comes again after a crash. @default 1000 */
  saveInterval?: number
  /** Aborting it closes the stream. */
  signal?: AbortSignal
}

/** The options of a stream, each with a value that holds its rule. */
export type CheckedStreamOptions = Required<Omit<StreamOptions, 'signal' | 'cursors'>> &
  Pick<StreamOptions, 'signal' | 'cursors'>

const MIN_INTERVAL = 200
const MAX_INTERVAL = 10_000
const MAX_QUEUE = 16_777_216

/** Checks a stream's options and fills in what is missing. Throws ValidationError naming the option. */
export function checkStreamOptions(options: StreamOptions): CheckedStreamOptions {
  const {
    maxReconnectAttempts = 5,
    reconnectInterval = 1000,
    connectTimeout = 5000,
    maxConnections = 18,
    pingInterval = 2000,
    missedPings = 3,
    staleAfter = 30_000,
    compression = false,
    queue = 1024,
    overflow = 'block',
    acknowledge = 'automatic',
    saveInterval = 1000,
    cursors,
    signal,
  } = checkOptions('options', options)
  checkNumber('reconnectInterval', reconnectInterval, { min: 0 })
  if (acknowledge === 'manual' && queue === 0)
    throw new ValidationError("acknowledge must be 'automatic' where queue is 0")
  return {
    maxReconnectAttempts: checkNumber('maxReconnectAttempts', maxReconnectAttempts, {
      min: 0,
      whole: true,
      infinite: true,
    }),
    reconnectInterval: Math.min(MAX_INTERVAL, Math.max(MIN_INTERVAL, reconnectInterval)),
    connectTimeout: checkNumber('connectTimeout', connectTimeout, { min: 1, max: MAX_TIMER }),
    maxConnections: checkNumber('maxConnections', maxConnections, { min: 1, whole: true }),
    pingInterval: checkNumber('pingInterval', pingInterval, { min: 10, max: MAX_TIMER }),
    missedPings: checkNumber('missedPings', missedPings, { min: 1, whole: true }),
    staleAfter: checkNumber('staleAfter', staleAfter, { min: 0, max: MAX_TIMER }),
    compression: checkBoolean('compression', compression),
    queue: checkNumber('queue', queue, { min: 0, max: MAX_QUEUE, whole: true }),
    overflow: checkWord('overflow', overflow, overflowPolicies),
    acknowledge: checkWord('acknowledge', acknowledge, acknowledgeModes),
    saveInterval: checkNumber('saveInterval', saveInterval, { min: 0, max: MAX_TIMER }),
    ...(cursors === undefined ? {} : { cursors }),
    ...(checkSignal('signal', signal) === undefined ? {} : { signal: signal as AbortSignal }),
  }
}

function checkWord<Word extends string>(
  field: string,
  value: unknown,
  words: readonly Word[],
): Word {
  const word = words.find(each => each === value)
  if (word !== undefined) return word
  throw new ValidationError(`${field} must be one of ${words.join(', ')}`)
}
