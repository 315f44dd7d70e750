import type { KV, KvEntry } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  DataStreamsError,
  isStreamsError,
  number,
  readOptions,
  type Schema,
  withDefault,
} from 'sluice/core'
import { describeProcess, noCursors, readCursors, readProcess, thisProcess } from 'sluice/internal'
import type { CursorStore } from 'sluice/stores'
import { isAPIError, logError } from './errors.js'
import { loadKeyValue } from './library.js'
import { checkConnection, keepTrying } from './log.js'
import { checkName } from './subjects.js'

/** Where cursors are stored. */
export interface NatsCursorsOptions {
  /**
   * The bucket of the key-value store; it is created where it does not exist. @default
   * 'sluice-cursors'
   */
  readonly bucket?: string
  /** The key: each stream needs one of its own. */
  readonly key: string
  /** Servers that each hold a copy of a bucket that is created, 1 to 5. @default 1 */
  readonly replicas?: number
}

const schema = {
  bucket: withDefault('sluice-cursors', checkName),
  key: checkName,
  replicas: withDefault(1, number({ min: 1, max: 5, whole: true })),
} satisfies Schema<NatsCursorsOptions>

const decoder = new TextDecoder()
/** Milliseconds that the store may take to answer. */
const TIMEOUT = 4000
/** Milliseconds for which the store is asked for cursors while it is away. */
const PATIENCE = 60_000
/** Milliseconds between two of these requests. */
const RETRY_AFTER = 500

/** The value of a key. */
interface Saved {
  /** The id of the store that loaded or saved last, and its process. */
  readonly owner: { readonly store: string }
  readonly cursors: Readonly<Record<string, number>>
}

/**
 * Stores cursors in the key-value store of NATS, so that a worker that moves to another machine
 * goes on where it was. A key belongs to the stream that loaded it last: `load` takes it over, and
 * a save of the stream before it fails.
 */
export function natsCursors(connection: NatsConnection, given: NatsCursorsOptions): CursorStore {
  const { bucket, key, replicas } = readOptions('natsCursors', given, schema)
  checkConnection(connection)
  const place = `key ${key} of bucket ${bucket}`
  let opening: Promise<KV> | undefined
  let revision = 0
  const owner = { ...thisProcess(), store: crypto.randomUUID() }

  function open(): Promise<KV> {
    opening ??= openBucket(connection, bucket, replicas).catch(thrown => {
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
   * Reads the cursors, and makes them this store's: what the owner before saves from now on does
   * not follow on that.
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
      // A save without an answer may have been stored all the same.
      if (entry === null || found?.store !== owner.store) throw takenOver(place, found)
      await put(store, cursors, entry.revision)
    }
  }

  return {
    async load() {
      try {
        // A stream that can't read its cursors begins with now, and loses what came before.
        return await keepTrying(takeOver, PATIENCE, RETRY_AFTER, thrown => {
          const isForGood = isStreamsError(thrown) && !thrown.isRetryable
          return isForGood || connection.isClosed()
        })
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

/** The value of a key; undefined if it has none. A value may also be cursors without an owner. */
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

async function openBucket(
  connection: NatsConnection,
  bucket: string,
  replicas: number,
): Promise<KV> {
  const { Kvm } = await loadKeyValue()
  // Only the leader knows the newest revision, which a save has to name.
  const options = { timeout: TIMEOUT, replicas, history: 1, allow_direct: false }
  return new Kvm(connection as never).create(bucket, options)
}
