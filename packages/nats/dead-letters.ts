import type { JsMsg, StoredMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { optional, readOptions, type Schema } from 'sluice/core'
import { isAPIError, logError, RelayLogError, streamError } from './errors.js'
import { loadTransport } from './library.js'
import { ReportLog } from './log.js'
import { againSubject, checkName, checkPrefix, deadSubject, feedPart } from './subjects.js'

/** Why a report of a queue became a dead letter: what the header `Sluice-Reason` says. */
export type DeadReason = 'deliveries' | 'signature' | 'no-report'

/** Which dead letters. */
export interface DeadLetterOptions {
  /** The queue. */
  readonly queue: string
  /**
   * The stream of JetStream that a relay fills; dead letters are in one of its own, `STREAM-DEAD`.
   * @default 'SLUICE'
   */
  readonly stream?: string
  /** The beginning of its subjects. @default 'sluice' */
  readonly prefix?: string
}

const schema = {
  queue: checkName,
  stream: optional(checkName),
  prefix: optional(checkPrefix),
} satisfies Schema<DeadLetterOptions>

/** A message of a queue that was given up. */
export interface DeadLetter {
  /** Its number in the stream of dead letters. */
  readonly sequence: number
  /** The feed of its subject. */
  readonly feedID: string
  /**
   * Why it was given up: after too many deliveries, since its signatures are wrong, or since it is
   * no report.
   */
  readonly reason: DeadReason
  /** How often a worker was given it. */
  readonly deliveries: number
  /** When it was given up, in Unix milliseconds. */
  readonly time: number
  /** The message, as it was in the log. */
  readonly data: Uint8Array
}

/**
 * Bytes of dead letters at most, about 100,000. Once they are taken, a queue keeps its messages and
 * says so.
 */
const MAX_BYTES = 268_435_456
/** Nanoseconds in which a dead letter that is stored again is recognised. */
const DUPLICATE_WINDOW = 3_600_000_000_000

/** The stream of a log's dead letters. */
export function deadStream(stream: string): string {
  return `${stream}-DEAD`
}

/** Makes sure that there is a stream for dead letters, with as many copies as the log has. */
export async function prepareDeadLetters(log: ReportLog, replicas: number): Promise<void> {
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
      max_bytes: MAX_BYTES,
      duplicate_window: DUPLICATE_WINDOW,
      num_replicas: replicas,
    })
  } catch (thrown) {
    // Another worker was faster.
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
 * Gives the dead letters of a queue to its workers again, and removes them from the dead letters.
 * Other queues and broadcast workers do not get them again. Resolves with their number.
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

/** The dead letters that there are now: those that come meanwhile may be the same ones again. */
async function* readStored(log: ReportLog, queue: string): AsyncGenerator<StoredMsg> {
  const subject = deadSubject(log.prefix, queue, '*')
  const last = await getStored(log, { last_by_subj: subject })
  for (let next = 1; next <= (last?.seq ?? 0); ) {
    const stored = await getStored(log, { seq: next, next_by_subj: subject })
    // Another may have published them again meanwhile.
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
