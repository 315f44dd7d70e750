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
 * How the stream reacts when you take reports too slowly. `block` pauses the connections, and
 * nothing is lost. `drop-oldest` drops the oldest queued report. `latest-per-feed` drops the oldest
 * queued report of the same feed; if there is none, it drops the oldest of all. `close` ends the
 * stream.
 */
export type OverflowPolicy = (typeof overflowPolicies)[number]

const acknowledgeModes = ['automatic', 'manual'] as const
/**
 * When a report counts as acknowledged. With `automatic`, this is once its handlers have returned
 * and their promises have settled, or once its reader asks for the next report. With `manual`, this
 * is when you call `report.acknowledge()`.
 */
export type AcknowledgeMode = (typeof acknowledgeModes)[number]

/** Options of one stream. */
export interface StreamOptions {
  /**
   * How many attempts to connect may fail in a row before the stream gives up. With `Infinity` it
   * never gives up.
   * @default 5
   */
  maxReconnectAttempts?: number
  /**
   * Milliseconds before the first reconnection, with jitter. The delay doubles with each further
   * attempt, up to 10000. The value is clamped to 200 to 10000. @default 1000
   */
  reconnectInterval?: number
  /** Milliseconds within which a connection must open. @default 5000 */
  connectTimeout?: number
  /**
   * The most sockets that the stream may have at once, closing sockets included. A change of feeds
   * waits until its new connections fit. If they can never fit, the change is rejected. The service
   * allows a user 20 connections over all processes. The default leaves two connections for closed
   * sockets that the service still counts.
   * @default 18
   */
  maxConnections?: number
  /** Milliseconds between two pings. @default 2000 */
  pingInterval?: number
  /** Pings in a row without an answer before a connection counts as dead. @default 3 */
  missedPings?: number
  /**
   * Milliseconds without a report before a feed counts as stale. With 0 no feed does.
   * @default 30000
   */
  staleAfter?: number
  /**
   * Offer permessage-deflate. Compressed messages need about a third of the bytes, but more work.
   * @default false
   */
  compression?: boolean
  /**
   * How many reports may wait to be read before `overflow` applies. Without a `report` handler,
   * reports wait from `connect` on. With a handler, reports wait only for a loop. With 0 no report
   * waits: a report without a handler is lost, and `read` and iteration throw. Use 0 for a stream
   * that only plugins or handlers read. @default 1024
   */
  queue?: number
  /**
   * How the stream reacts once `queue` reports wait. `block` pauses the connections and drops
   * nothing. But if your own `connect` opened a connection without `pause` and `resume`, the stream
   * ends when twice as many reports wait. `drop-oldest` drops the oldest report. `latest-per-feed`
   * drops the oldest report of the same feed; if there is none, it drops the oldest of all. Dropped
   * reports are counted, and announced as gaps within five seconds. `close` ends the stream.
   * @default 'block'
   */
  overflow?: OverflowPolicy
  /**
   * When a report counts as acknowledged, so that its feed's cursor may pass the report. With
   * `automatic`, this is once its handlers have returned and their promises have settled, or once
   * its reader asks for the next report. With `manual`, this is when you call
   * `report.acknowledge()`, in any order. With `cursors` or `manual`, the connections are paused
   * once `queue` reports were given out and are not acknowledged. This is so whatever `overflow`
   * says. So `manual` needs a `queue` of at least 1. Without `cursors` and `manual`, the stream
   * does not wait for the promises of handlers. @default 'automatic'
   */
  acknowledge?: AcknowledgeMode
  /**
   * Stores how far you have acknowledged the reports of each feed. A later stream with the same
   * store resumes there, and fetches the reports that were missed. `fileCursors` of `sluice/stores`
   * stores cursors in a file.
   */
  cursors?: CursorStore
  /**
   * The least number of milliseconds between two saves of the cursors. After a crash, the reports
   * acknowledged since the last save are delivered again. Saves come sooner after a feed's first
   * cursor. That cursor is saved at once, or 50 ms after the previous save. The wait then doubles
   * with each save, up to `saveInterval`. @default 1000
   */
  saveInterval?: number
  /** Aborting this signal closes the stream. */
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
