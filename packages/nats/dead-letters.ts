import type { JsMsg, StoredMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { checkOptions, type OptionNames } from 'sluice/core'
import { RelayLogError, logError } from './errors.js'
import { loadTransport } from './library.js'
import { accessLog, checkConnection, isAPIError, type ReportLog, streamError } from './log.js'
import {
  againSubject,
  checkName,
  checkPrefix,
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  deadSubject,
  feedPart,
} from './subjects.js'

/** Why a report of a queue became a dead letter: what the header `Sluice-Reason` says. */
export type DeadReason = 'deliveries' | 'signature' | 'no-report'

/** Which dead letters. */
export interface DeadLetterOptions {
  /** The queue. */
  readonly queue: string
  /** The stream of JetStream that a relay fills; dead letters are in one of its own, `STREAM-DEAD`. @default 'SLUICE' */
  readonly stream?: string
  /** What its subjects begin with. @default 'sluice' */
  readonly prefix?: string
}

const names: OptionNames<DeadLetterOptions> = { queue: true, stream: true, prefix: true }

/** A message of a queue that was given up. */
export interface DeadLetter {
  /** Its number in the stream of dead letters. */
  readonly sequence: number
  /** The feed of its subject. */
  readonly feedID: string
  /** Why it was given up: after too many deliveries, since its signatures are wrong, or since it is no report. */
  readonly reason: DeadReason
  /** How often a worker was given it. */
  readonly deliveries: number
  /** When it was given up, in Unix milliseconds. */
  readonly time: number
  /** The message, as it was in the log. */
  readonly data: Uint8Array
}

/** Bytes of dead letters at most, about 100,000. Once they are taken, a queue keeps its messages and says so. */
const MAX_BYTES = 268_435_456
/** Nanoseconds in which a dead letter that is stored again is recognised. */
const DUPLICATE_WINDOW = 3_600_000_000_000
const NO_STREAM = 10_059
const STREAM_EXISTS = 10_058
const NO_MESSAGE = 10_037
const NO_CONSUMER = 10_014

/** The stream of a log's dead letters. */
export function deadStream(stream: string): string {
  return `${stream}-DEAD`
}

/** Makes sure that there is a stream for dead letters, with as many copies as the log has. */
export async function prepareDeadLetters(log: ReportLog, replicas: number): Promise<void> {
  const { manager } = await accessLog(log.connection)
  const name = deadStream(log.stream)
  try {
    await manager.streams.info(name)
  } catch (thrown) {
    if (!isAPIError(thrown, NO_STREAM)) throw streamError(name, thrown)
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
    } catch (failure) {
      // Another worker was faster.
      if (isAPIError(failure, STREAM_EXISTS)) return
      throw logError(`stream ${name} could not be created`, failure)
    }
  }
}

/** Stores a message of a queue as a dead letter. */
export async function storeDeadLetter(
  log: ReportLog,
  queue: string,
  message: JsMsg,
  reason: DeadReason,
): Promise<void> {
  const { client } = await accessLog(log.connection)
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
  const { log, queue } = check('readDeadLetters', connection, given)
  return readLetters(log, queue)
}

async function* readLetters(log: ReportLog, queue: string): AsyncGenerator<DeadLetter> {
  for await (const stored of readStored(log, queue)) yield toDeadLetter(stored)
}

/**
 * Gives the dead letters of a queue to its workers again, and removes them from the dead letters. Other queues and broadcast
 * workers do not get them again. Resolves with their number.
 */
export async function republishDeadLetters(
  connection: NatsConnection,
  given: DeadLetterOptions,
): Promise<number> {
  const { log, queue } = check('republishDeadLetters', connection, given)
  const { client, manager } = await accessLog(log.connection)
  const name = deadStream(log.stream)
  try {
    await manager.consumers.info(log.stream, queue)
  } catch (thrown) {
    if (isAPIError(thrown, NO_CONSUMER))
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

function check(
  what: string,
  connection: NatsConnection,
  given: DeadLetterOptions,
): { readonly log: ReportLog; readonly queue: string } {
  const options = checkOptions(what, given, names)
  return {
    log: {
      connection: checkConnection(connection),
      stream: checkName('stream', options.stream ?? DEFAULT_STREAM),
      prefix: checkPrefix('prefix', options.prefix ?? DEFAULT_PREFIX),
    },
    queue: checkName('queue', options.queue),
  }
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

/** Gets a dead letter; null where there is none. */
async function getStored(
  { connection, stream }: ReportLog,
  query: object,
): Promise<StoredMsg | null> {
  const { manager } = await accessLog(connection)
  const name = deadStream(stream)
  try {
    return await manager.streams.getMessage(name, query as never)
  } catch (thrown) {
    if (isAPIError(thrown, NO_MESSAGE) || isAPIError(thrown, NO_STREAM)) return null
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
