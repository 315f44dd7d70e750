import type { KV, KvEntry } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { DataStreamsError } from '../core/errors.js'
import { checkNumber, checkOptions, type OptionNames } from '../core/options.js'
import { sha256 } from '../platform/sha256.js'
import type { CursorStore } from '../stores/file-cursors.js'
import { readCursors } from '../stores/read-cursors.js'
import { logError } from './errors.js'
import { loadKeyValue } from './library.js'
import { checkConnection, isAPIError } from './log.js'
import { checkName } from './subjects.js'

/** Where cursors are stored. */
export interface NatsCursorsOptions {
  /** The bucket of the key-value store; it is created where it does not exist. @default 'sluice-cursors' */
  readonly bucket?: string
  /** The key: each stream needs one of its own. */
  readonly key: string
  /** Servers that each hold a copy of a bucket that is created, 1 to 5. @default 1 */
  readonly replicas?: number
}

const names: OptionNames<NatsCursorsOptions> = { bucket: true, key: true, replicas: true }

const decoder = new TextDecoder()
/** Milliseconds that the store may take to answer. */
const TIMEOUT = 4000
/** Milliseconds for which cursors are asked for while the store is away, and those between two tries. */
const PATIENCE = 60_000
const RETRY_AFTER = 500
/** Saves without an answer that are remembered: an hour of them. */
const MOST_UNSURE = 1000

/**
 * Stores cursors in the key-value store of NATS, so that a worker that moves to another machine goes on where it was. Each save
 * replaces the one that this store loaded or saved last, and no other: where another process has saved meanwhile, it fails.
 */
export function natsCursors(connection: NatsConnection, given: NatsCursorsOptions): CursorStore {
  const options = checkOptions('natsCursors', given, names)
  checkConnection(connection)
  const bucket = checkName('bucket', options.bucket ?? 'sluice-cursors')
  const key = checkName('key', options.key)
  const replicas = checkNumber('replicas', options.replicas ?? 1, { min: 1, max: 5, whole: true })
  const place = `key ${key} of bucket ${bucket}`
  let opening: Promise<KV> | undefined
  let revision = 0
  /** Hashes of what saves without an answer may have stored all the same, since the last that had one. */
  const unsure = new Set<string>()

  function open(): Promise<KV> {
    opening ??= openBucket(connection, bucket, replicas).catch(thrown => {
      opening = undefined
      throw thrown
    })
    return opening
  }

  /** A stream that can't read its cursors begins with now, and loses what came before: so it is tried for a while. */
  async function read(): Promise<KvEntry | null> {
    const end = performance.now() + PATIENCE
    for (;;) {
      try {
        return await (await open()).get(key)
      } catch (thrown) {
        if (performance.now() > end || connection.isClosed()) throw thrown
        await new Promise(resolve => setTimeout(resolve, RETRY_AFTER))
      }
    }
  }

  async function write(store: KV, text: string): Promise<void> {
    try {
      revision = await store.put(key, text, { previousSeq: revision, timeout: TIMEOUT })
    } catch (thrown) {
      if (!isAPIError(thrown, 10_071)) {
        if (unsure.size < MOST_UNSURE) unsure.add(hashOf(text))
        throw thrown
      }
      const entry = await store.get(key)
      if (entry === null || !unsure.has(hashOf(decoder.decode(entry.value))))
        throw new DataStreamsError(
          `${place} was saved by another process, and each stream needs a key of its own`,
        )
      revision = await store.put(key, text, { previousSeq: entry.revision, timeout: TIMEOUT })
    }
    unsure.clear()
  }

  return {
    async load() {
      try {
        const entry = await read()
        revision = entry?.revision ?? 0
        unsure.clear()
        if (entry === null || entry.operation !== 'PUT') return {}
        return readCursors(decoder.decode(entry.value), place)
      } catch (thrown) {
        throw logError(`${place} can't be read`, thrown)
      }
    },
    async save(cursors) {
      try {
        await write(await open(), JSON.stringify(cursors))
      } catch (thrown) {
        throw logError(`${place} can't be written`, thrown)
      }
    },
  }
}

function hashOf(text: string): string {
  return sha256?.hash(text) ?? text
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
