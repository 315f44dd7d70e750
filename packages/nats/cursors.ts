import { emitWarning } from 'node:process'
import type { KV, KvEntry } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  DataStreamsError,
  isStreamsError,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from 'sluice/core'
import { describeProcess, noCursors, readCursors, readProcess, thisProcess } from 'sluice/internal'
import type { CursorStore } from 'sluice/stores'
import { logError } from './errors.js'
import { loadKeyValue } from './library.js'
import { checkConnection, keepTrying, ReportLog } from './log.js'
import { isAPIError, isDenied } from './refusals.js'
import { bytesBeside } from './stream-settings.js'
import { checkName, DEFAULT_STREAM } from './subjects.js'

/** The options of `natsCursors`: where cursors are stored. */
export interface NatsCursorsOptions {
  /**
   * The bucket of the key-value store. It is created if it does not exist.
   * @default 'sluice-cursors'
   */
  readonly bucket?: string
  /** The key that cursors are stored under. Each stream needs its own key. */
  readonly key: string
  /**
   * How many servers each hold a copy of the bucket, 1 to 5. Only used when the bucket is created.
   * @default as many as hold a copy of `stream`, or 1 if there is no such stream
   */
  readonly replicas?: number
  /**
   * How many bytes the bucket stores at most. Only used when the bucket is created.
   * @default 67108864, or as many as `stream` stores at most if these are fewer
   */
  readonly bytes?: number
  /** The stream of the reports. Cursors should have as many copies as it has. @default 'SLUICE' */
  readonly stream?: string
  /** Receives a warning if the bucket has fewer copies. @default a warning of the process */
  readonly log?: Log
}

const schema = {
  bucket: withDefault('sluice-cursors', checkName),
  key: checkName,
  replicas: optional(number({ min: 1, max: 5, whole: true })),
  bytes: optional(number({ min: 1_048_576, whole: true })),
  stream: withDefault(DEFAULT_STREAM, checkName),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<NatsCursorsOptions>

/**
 * How many bytes a bucket stores at most, unless an option says otherwise: about 700,000 cursors.
 * The cursors of a feed take 85 bytes.
 */
const MAX_BYTES = 67_108_864
const decoder = new TextDecoder()
/** Milliseconds that the store may take to answer. */
const TIMEOUT = 4000
/** Milliseconds for which `load` is retried while the store does not answer. */
const PATIENCE = 60_000
/** Milliseconds between two attempts to load. */
const RETRY_AFTER = 500

/** The value of a key. */
interface Saved {
  /** The id and the process of the store that last loaded or saved. */
  readonly owner: { readonly store: string }
  readonly cursors: Readonly<Record<string, number>>
}

/**
 * Stores cursors in the key-value store of NATS, so that a worker that moves to another machine
 * resumes where it was. A key belongs to the stream that loaded it last. `load` takes the key over,
 * so a later save by the previous owner fails.
 */
export function natsCursors(connection: NatsConnection, given: NatsCursorsOptions): CursorStore {
  const options = readOptions('natsCursors', given, schema)
  const { bucket, key } = options
  checkConnection(connection)
  const place = `key ${key} of bucket ${bucket}`
  let opening: Promise<KV> | undefined
  let revision = 0
  const owner = { ...thisProcess(), store: crypto.randomUUID() }

  function open(): Promise<KV> {
    opening ??= openBucket(connection, options).catch(thrown => {
      opening = undefined
      throw thrown
    })
    return opening
  }

  async function put(store: KV, cursors: Saved['cursors'], previousSeq: number): Promise<void> {
    const text = JSON.stringify({ owner, cursors } satisfies Saved)
    revision = await store.put(key, text, { previousSeq, timeout: TIMEOUT })
  }

  /**
   * Reads the cursors and makes this store their owner. It writes a new revision. A later save by
   * the previous owner names an older revision, and so fails.
   */
  async function takeOver(): Promise<Saved['cursors']> {
    const store = await open()
    const entry = await store.get(key)
    const cursors = readEntry(entry, place)?.cursors ?? {}
    await put(store, cursors, entry?.revision ?? 0)
    return cursors
  }

  async function write(store: KV, cursors: Saved['cursors']): Promise<void> {
    try {
      await put(store, cursors, revision)
    } catch (thrown) {
      if (!isAPIError(thrown, 'wrongRevision')) throw thrown
      const entry = await store.get(key)
      const found = readEntry(entry, place)?.owner as Partial<typeof owner> | undefined
      // A save that got no answer may still have been stored.
      if (entry === null || found?.store !== owner.store) throw takenOver(place, found)
      await put(store, cursors, entry.revision)
    }
  }

  return {
    async load() {
      try {
        // Retried, because a stream that can't read its cursors begins at the present and loses
        // earlier reports.
        return await keepTrying(connection, takeOver, PATIENCE, RETRY_AFTER)
      } catch (thrown) {
        throw logError(`${place} can't be read`, thrown)
      }
    },
    async save(cursors) {
      try {
        await write(await open(), cursors)
      } catch (thrown) {
        if (isStreamsError(thrown, 'CURSOR_STORE')) throw thrown
        throw logError(`${place} can't be written`, thrown)
      }
    },
  }
}

/**
 * Reads the value of a key. Returns undefined if the key has no value. A value may also be cursors
 * without an owner.
 */
function readEntry(entry: KvEntry | null, place: string): Partial<Saved> | undefined {
  if (entry === null || entry.operation !== 'PUT') return undefined
  const text = decoder.decode(entry.value)
  let value: Partial<Saved> | undefined
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw noCursors(place, 'it is not JSON', { cause })
  }
  const { owner, cursors } = value ?? {}
  if (cursors === undefined) return { cursors: readCursors(text, place) }
  const checked = readCursors(JSON.stringify(cursors), place)
  return { cursors: checked, ...(owner && { owner }) }
}

function takenOver(place: string, owner: unknown): DataStreamsError {
  return new DataStreamsError(
    `${place} belongs to ${describeProcess(readProcess(owner))}, which loaded it later: each stream needs a key of its own`,
    { code: 'CURSOR_STORE' },
  )
}

/** The options that say how a bucket is opened. */
type BucketOptions = Required<Pick<NatsCursorsOptions, 'bucket' | 'stream' | 'log'>> &
  Pick<NatsCursorsOptions, 'replicas' | 'bytes'>

async function openBucket(
  connection: NatsConnection,
  { bucket, stream, log, ...given }: BucketOptions,
): Promise<KV> {
  const { Kvm } = await loadKeyValue()
  const { replicas, bytes } = { ...(await settingsFor(connection, stream)), ...given }
  // A save must name the newest revision, and only the leader is sure to know it. So direct reads
  // are off.
  const options = {
    ...{ timeout: TIMEOUT, history: 1, allow_direct: false },
    ...{ replicas, max_bytes: bytes },
  }
  try {
    const store = await new Kvm(connection as never).create(bucket, options)
    const { replicas: copies } = await store.status()
    if (copies < replicas) {
      const message = `bucket ${bucket} has ${copies} of ${replicas} copies: nats stream edit KV_${bucket} --replicas ${replicas}`
      if (log.warn === undefined) emitWarning(message)
      else log.warn(message)
    }
    return store
  } catch (thrown) {
    throw logError(`bucket ${bucket} could not be opened`, thrown)
  }
}

/**
 * The settings of a new bucket: as many servers hold a copy as of the stream of the reports, 1 if
 * it does not exist or is not allowed.
 */
async function settingsFor(
  connection: NatsConnection,
  stream: string,
): Promise<{ readonly replicas: number; readonly bytes: number }> {
  try {
    const { config } = await new ReportLog({ connection, stream }).info()
    return { replicas: config.num_replicas, bytes: bytesBeside(config, MAX_BYTES) }
  } catch (thrown) {
    const { message } = thrown as Error
    if (/does not exist/.test(message) || isDenied(message))
      return { replicas: 1, bytes: MAX_BYTES }
    throw thrown
  }
}
