import type { StoredMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { accessLog, type ReportLog, streamError } from './log.js'
import { subjectOf } from './subjects.js'

/** Where messages are read from. */
export type Position = { readonly start_time: Date } | { readonly seq: number }

/** Milliseconds that the log may take for one batch. */
const TIMEOUT = 10_000
/** A server of these versions never answers again once it has read a batch while it stored a message. */
const HANGING = new Set(['2.12.0', '2.12.1'])

/**
 * The feed's messages from a position on, at most `batch`. Any server with a copy of the stream answers, and it may be behind the
 * others: fewer messages don't prove that there are no more. Nothing more is asked of the log once the signal has aborted.
 */
export async function readBatch(
  log: ReportLog,
  feedID: string,
  from: Position,
  batch: number,
  signal?: AbortSignal,
): Promise<readonly StoredMsg[]> {
  signal?.throwIfAborted()
  const subject = subjectOf(log.prefix, feedID)
  return mayHang(log.connection)
    ? readEach(log, subject, from, batch, signal)
    : readAtOnce(log, subject, from, batch)
}

function mayHang({ info }: NatsConnection): boolean {
  return info === undefined || HANGING.has(info.version)
}

async function readEach(
  { connection, stream }: ReportLog,
  subject: string,
  from: Position,
  batch: number,
  signal: AbortSignal | undefined,
): Promise<readonly StoredMsg[]> {
  const { manager } = await accessLog(connection)
  const messages: StoredMsg[] = []
  let at = from
  while (messages.length < batch) {
    signal?.throwIfAborted()
    const query = { ...at, next_by_subj: subject } as never
    const message = await manager.direct.getMessage(stream, query).catch(thrown => {
      throw streamError(stream, thrown)
    })
    if (message === null) break
    messages.push(message)
    at = { seq: message.seq + 1 }
  }
  return messages
}

async function readAtOnce(
  { connection, stream }: ReportLog,
  subject: string,
  from: Position,
  batch: number,
): Promise<readonly StoredMsg[]> {
  const { manager } = await accessLog(connection)
  return new Promise<readonly StoredMsg[]>((resolve, reject) => {
    const messages: StoredMsg[] = []
    const timer = setTimeout(
      () => reject(streamError(stream, new Error(`nothing within ${TIMEOUT} ms`))),
      TIMEOUT,
    )
    // With a callback, the library ends its subscription.
    const callback = (done: { readonly err?: Error } | null, message: StoredMsg): void => {
      if (done === null) {
        messages.push(message)
        return
      }
      clearTimeout(timer)
      if (done.err === undefined || isNothing(done.err)) resolve(messages)
      else reject(streamError(stream, done.err))
    }
    manager.direct
      .getBatch(stream, { ...from, next_by_subj: subject, batch, callback } as never)
      .catch(thrown => {
        clearTimeout(timer)
        reject(streamError(stream, thrown))
      })
  })
}

function isNothing(error: Error): boolean {
  return (error as { readonly code?: unknown }).code === 404
}
