import type { JsMsg, StoredMsg, StreamConfig } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { optional, readOptions, type Schema } from 'sluice/core'
import { logError, RelayLogError, streamError } from './errors.js'
import { loadTransport } from './library.js'
import { ReportLog } from './log.js'
import { isAPIError } from './refusals.js'
import { bytesBeside } from './stream-settings.js'
import { againSubject, checkName, checkPrefix, deadSubject, feedPart } from './subjects.js'

/** Why a report of a queue became a dead letter: the value of the header `Sluice-Reason`. */
export type DeadReason = 'deliveries' | 'signature' | 'no-report'

/** Selects dead letters by queue and log. */
export interface DeadLetterOptions {
  /** The name of the queue. */
  readonly queue: string
  /**
   * The JetStream stream that a relay fills. Dead letters are in a separate stream, `STREAM-DEAD`.
   * @default 'SLUICE'
   */
  readonly stream?: string
  /** The prefix of the stream's subjects. @default 'sluice' */
  readonly prefix?: string
}

const schema = {
  queue: checkName,
  stream: optional(checkName),
  prefix: optional(checkPrefix),
} satisfies Schema<DeadLetterOptions>

/** A message that a queue no longer delivers. */
export interface DeadLetter {
  /** Its number in the stream of dead letters. */
  readonly sequence: number
  /** The feed of its subject. */
  readonly feedID: string
  /**
   * Why the queue no longer delivers it: it was delivered too often, its signatures are wrong, or
   * it is not a report.
   */
  readonly reason: DeadReason
  /** How often it was delivered to a worker. */
  readonly deliveries: number
  /** When it became a dead letter, in Unix milliseconds. */
  readonly time: number
  /** The message, as it was in the log. */
  readonly data: Uint8Array
}

/**
 * How many bytes of dead letters are stored at most: about 100,000 dead letters. When this limit is
 * reached, a queue keeps its messages and emits an error. A log with fewer bytes sets the limit.
 */
const MAX_BYTES = 268_435_456
/** Nanoseconds within which the server recognises a dead letter that is stored twice. */
const DUPLICATE_WINDOW = 3_600_000_000_000

/** The name of the stream of a log's dead letters. */
export function deadStream(stream: string): string {
  return `${stream}-DEAD`
}

/**
 * Creates the stream for dead letters if it does not exist, with as many replicas as the log has.
 */
export async function prepareDeadLetters(log: ReportLog, config: StreamConfig): Promise<void> {
  const { manager } = await log.access()
  const name = deadStream(log.stream)
  try {
    await manager.streams.info(name)
    return
  } catch (thrown) {
    if (!isAPIError(thrown, 'noStream')) throw streamError(name, thrown)
  }
  try {
    await manager.streams.add({
      name,
      subjects: [deadSubject(log.prefix, '>')],
      storage: 'file',
      discard: 'new',
      max_bytes: bytesBeside(config, MAX_BYTES),
      duplicate_window: DUPLICATE_WINDOW,
      num_replicas: config.num_replicas,
    })
  } catch (thrown) {
    // If the stream exists now, another worker was faster.
    if (!isAPIError(thrown, 'streamExists'))
      throw logError(`stream ${name} could not be created`, thrown)
  }
}

/** Stores a message of a queue as a dead letter. */
export async function storeDeadLetter(
  log: ReportLog,
  queue: string,
  message: JsMsg,
  reason: DeadReason,
): Promise<void> {
  const { client } = await log.access()
  const { headers } = await loadTransport()
  const { streamSequence, deliveryCount } = message.info
  const given = headers()
  given.set('Sluice-Reason', reason)
  given.set('Sluice-Deliveries', String(deliveryCount))
  given.set('Sluice-Sequence', String(streamSequence))
  await client.publish(deadSubject(log.prefix, queue, feedPart(message.subject)), message.data, {
    msgID: `${queue}-${streamSequence}-${message.info.timestampNanos}`,
    headers: given,
    expect: { streamName: deadStream(log.stream) },
  })
}

/** Reads the dead letters of a queue, the oldest first. */
export function readDeadLetters(
  connection: NatsConnection,
  given: DeadLetterOptions,
): AsyncGenerator<DeadLetter> {
  const { queue, ...place } = readOptions('readDeadLetters', given, schema)
  return readLetters(new ReportLog({ connection, ...place }), queue)
}

async function* readLetters(log: ReportLog, queue: string): AsyncGenerator<DeadLetter> {
  for await (const stored of readStored(log, queue)) yield toDeadLetter(stored)
}

/**
 * Publishes the dead letters of a queue to its workers again, and removes them from the stream of
 * dead letters. Other queues and broadcast workers do not get them again. Resolves with the number
 * of dead letters.
 */
export async function republishDeadLetters(
  connection: NatsConnection,
  given: DeadLetterOptions,
): Promise<number> {
  const { queue, ...place } = readOptions('republishDeadLetters', given, schema)
  const log = new ReportLog({ connection, ...place })
  const { client, manager } = await log.access()
  const name = deadStream(log.stream)
  try {
    await manager.consumers.info(log.stream, queue)
  } catch (thrown) {
    if (isAPIError(thrown, 'noConsumer'))
      throw new RelayLogError(`queue ${queue} does not exist: nobody would get its reports again`)
    throw streamError(log.stream, thrown)
  }
  let count = 0
  for await (const stored of readStored(log, queue)) {
    try {
      await client.publish(againSubject(log.prefix, queue, feedPart(stored.subject)), stored.data, {
        msgID: `again-${queue}-${stored.seq}-${stored.timestamp}`,
        expect: { streamName: log.stream },
      })
      await manager.streams.deleteMessage(name, stored.seq, false)
    } catch (thrown) {
      throw logError(`dead letter ${stored.seq} of queue ${queue} could not be published`, thrown)
    }
    count++
  }
  return count
}

/**
 * Reads the dead letters that exist at the start. Dead letters that arrive meanwhile are left out,
 * because they may be republished ones.
 */
async function* readStored(log: ReportLog, queue: string): AsyncGenerator<StoredMsg> {
  const subject = deadSubject(log.prefix, queue, '*')
  const last = await getStored(log, { last_by_subj: subject })
  for (let next = 1; next <= (last?.seq ?? 0); ) {
    const stored = await getStored(log, { seq: next, next_by_subj: subject })
    // Another process may have republished the rest meanwhile.
    if (stored === null || stored.seq > (last?.seq ?? 0)) return
    yield stored
    next = stored.seq + 1
  }
}

/** Gets a dead letter; null if there is none. */
async function getStored(log: ReportLog, query: object): Promise<StoredMsg | null> {
  const { manager } = await log.access()
  const name = deadStream(log.stream)
  try {
    return await manager.streams.getMessage(name, query as never)
  } catch (thrown) {
    if (isAPIError(thrown, 'noMessage') || isAPIError(thrown, 'noStream')) return null
    throw streamError(name, thrown)
  }
}

function toDeadLetter({ seq, subject, header, data, time }: StoredMsg): DeadLetter {
  return {
    sequence: seq,
    feedID: feedPart(subject),
    reason: header.get('Sluice-Reason') as DeadReason,
    deliveries: Number(header.get('Sluice-Deliveries')),
    time: time.getTime(),
    data,
  }
}
