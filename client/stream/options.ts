import { ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkSignal,
  MAX_TIMER,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { CursorStore } from '../stores/file-cursors.js'

const overflowPolicies = ['block', 'drop-oldest', 'latest-per-feed', 'close'] as const
/**
 * What happens when you take reports too slowly. `block` pauses the connections, and nothing is
 * lost. `drop-oldest` drops the oldest queued report, `latest-per-feed` the oldest of the same
 * feed, where there is one. `close` ends the stream.
 */
export type OverflowPolicy = (typeof overflowPolicies)[number]

const acknowledgeModes = ['automatic', 'manual'] as const
/**
 * When a report counts as acknowledged. `automatic`: once its handlers have returned and their
 * promises have settled, or its reader has asked for the next report. `manual`: when you call
 * `report.acknowledge()`.
 */
export type AcknowledgeMode = (typeof acknowledgeModes)[number]

/** Options of one stream. */
export interface StreamOptions {
  /**
   * Attempts to connect that may fail in a row before the stream gives up; `Infinity` never does.
   * @default 5
   */
  maxReconnectAttempts?: number
  /**
   * Milliseconds before the first reconnection, doubled for each further one up to 10000, with
   * jitter. Clamped to 200 to 10000. @default 1000
   */
  reconnectInterval?: number
  /** Milliseconds a connection may take to open. @default 5000 */
  connectTimeout?: number
  /**
   * The most sockets that the stream has at once, closing sockets included. A change of feeds waits
   * until its connections fit, and is rejected if they never can. The service allows a user 20 over
   * all processes. The default leaves two for closed sockets that the service still counts.
   * @default 18
   */
  maxConnections?: number
  /** Milliseconds between two pings. @default 2000 */
  pingInterval?: number
  /** Pings in a row without an answer before a connection counts as dead. @default 3 */
  missedPings?: number
  /** Milliseconds without a report before a feed counts as stale; 0 never does. @default 30000 */
  staleAfter?: number
  /**
   * Offer permessage-deflate: about a third of the bytes for more work on each message.
   * @default false
   */
  compression?: boolean
  /**
   * Reports that wait to be read, before `overflow` decides. Without a `report` handler and without
   * a loop they wait from `connect` on; beside a handler they wait only for a loop. With 0 nothing
   * waits: a report without a handler is lost, and `read` and iteration throw. 0 is for a stream
   * that only plugins or handlers read. @default 1024
   */
  queue?: number
  /**
   * Decides once `queue` reports wait. `block` pauses the connections and drops nothing. If a
   * `connect` of your own opened a connection without `pause` and `resume`, the stream ends when
   * twice as many wait. `drop-oldest` drops the oldest report, `latest-per-feed` the oldest of the
   * same feed, if there is one. Dropped reports are counted, and announced as gaps within five
   * seconds. `close` ends the stream. @default 'block'
   */
  overflow?: OverflowPolicy
  /**
   * When a report counts as acknowledged, so that its cursor may pass it. `automatic`: once its
   * handlers have returned and their promises have settled, or once its reader asks for the next
   * report. `manual`: when you call `report.acknowledge()`, in any order. With `cursors` or
   * `manual` the connections are paused while `queue` reports were given out and are not
   * acknowledged, whatever `overflow` says. So `manual` needs a `queue`. Without either, the stream
   * does not wait for the promises of handlers. @default 'automatic'
   */
  acknowledge?: AcknowledgeMode
  /**
   * Stores how far you have come in each feed. A stream with the same store resumes there, and
   * fetches the reports that it missed. `fileCursors` of `sluice/stores` stores this in a file.
   */
  cursors?: CursorStore
  /**
   * Milliseconds between two saves of the cursors, at least. After a crash, the reports
   * acknowledged since the last save come again. A feed's first cursor is saved at once; the next
   * save follows after 50 ms, and each later one after twice the time. @default 1000
   */
  saveInterval?: number
  /** Aborting it closes the stream. */
  signal?: AbortSignal
}

const MIN_INTERVAL = 200
const MAX_INTERVAL = 10_000
const MAX_QUEUE = 16_777_216

function checkStore(field: string, value: unknown): CursorStore {
  const store = value as CursorStore | null
  for (const name of ['load', 'save'] as const) checkFunction(`${field}.${name}`, store?.[name])
  return value as CursorStore
}

const duration = { min: 1, max: MAX_TIMER }
const schema = {
  maxReconnectAttempts: withDefault(5, number({ min: 0, whole: true, infinite: true })),
  reconnectInterval: withDefault(1000, (field, value) =>
    Math.min(MAX_INTERVAL, Math.max(MIN_INTERVAL, checkNumber(field, value, { min: 0 }))),
  ),
  connectTimeout: withDefault(5000, number(duration)),
  maxConnections: withDefault(18, number({ min: 1, whole: true })),
  pingInterval: withDefault(2000, number({ min: 10, max: MAX_TIMER })),
  missedPings: withDefault(3, number({ min: 1, whole: true })),
  staleAfter: withDefault(30_000, number({ min: 0, max: MAX_TIMER })),
  compression: withDefault(false, checkBoolean),
  queue: withDefault(1024, number({ min: 0, max: MAX_QUEUE, whole: true })),
  overflow: withDefault('block', oneOf(...overflowPolicies)),
  acknowledge: withDefault('automatic', oneOf(...acknowledgeModes)),
  cursors: optional(checkStore),
  saveInterval: withDefault(1000, number({ min: 0, max: MAX_TIMER })),
  signal: checkSignal,
} satisfies Schema<StreamOptions>

/** The options of a stream, checked and complete. */
export type CheckedStreamOptions = Required<Omit<StreamOptions, 'signal' | 'cursors'>> &
  Pick<StreamOptions, 'signal' | 'cursors'>

/**
 * Checks a stream's options and fills in the defaults. Throws ValidationError naming the option.
 */
export function checkStreamOptions(given: StreamOptions | undefined): CheckedStreamOptions {
  const options = readOptions('createStream', given, schema)
  if (options.acknowledge === 'manual' && options.queue === 0)
    throw new ValidationError("acknowledge must be 'automatic' where queue is 0")
  return options
}
