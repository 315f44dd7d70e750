import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { createLifetime } from 'sluice/core'
import { RelayLogError } from './errors.js'
import { loadTransport } from './library.js'

/** Publishes messages, many at a time, each until the log has acknowledged it. */
export interface Publisher {
  publish(subject: string, data: Uint8Array, id: string, done: (isDuplicate: boolean) => void): void
  /** Messages that the log has not acknowledged. */
  readonly pending: number
  close(): void
}

interface Pending {
  readonly subject: string
  readonly data: Uint8Array
  readonly id: string
  readonly done: (isDuplicate: boolean) => void
  /** When it was sent last, in ms of `performance.now`. */
  sentAt: number
  /** No answer came to what was sent last. */
  isUnanswered: boolean
}

/** Milliseconds without an acknowledgement after which a message is sent again. */
const RESEND_AFTER = 5000
/** Milliseconds after which a message is sent again that the log rejects. */
const RETRY_AFTER = 500
const CHECK_INTERVAL = 250
/** Milliseconds between two errors of one kind. */
const ERROR_INTERVAL = 10_000

/**
 * Makes a publisher. The library's own publish waits for each message with a timer and a promise of its own, which costs more than
 * the message; this one has a subscription for all acknowledgements, and one timer.
 */
export async function createPublisher(
  connection: NatsConnection,
  stream: string,
  failed: (error: RelayLogError) => void,
): Promise<Publisher> {
  const { createInbox, headers } = await loadTransport()
  const life = createLifetime()
  const inbox = createInbox(inboxPrefixOf(connection))
  const waiting = new Map<string, Pending>()
  const say = limitErrors(stream, failed)
  let count = 0
  let isConnected = true

  function send(token: string, message: Pending): void {
    message.sentAt = performance.now()
    message.isUnanswered = true
    // The library would store what is sent while it is disconnected.
    if (!isConnected) return
    const given = headers()
    given.set('Nats-Msg-Id', message.id)
    try {
      connection.publish(message.subject, message.data, {
        reply: `${inbox}.${token}`,
        headers: given,
      })
    } catch (thrown) {
      say('the log can not be reached', thrown)
    }
  }

  function sendAgain(): void {
    const before = performance.now() - RESEND_AFTER
    let isLate = false
    for (const [token, message] of waiting) {
      if (message.sentAt > before) continue
      isLate ||= message.isUnanswered
      send(token, message)
    }
    if (isLate && !connection.isClosed())
      say(`the log has acknowledged nothing of ${waiting.size} messages for ${RESEND_AFTER} ms`)
  }

  function receive(error: Error | null, { subject, data, headers: status }: Msg): void {
    if (error !== null) return
    const token = subject.slice(inbox.length + 1)
    const message = waiting.get(token)
    if (message === undefined) return
    const answer =
      status?.code === 503 ? { refusal: 'no stream takes the subject' } : readAnswer(data)
    if ('refusal' in answer) {
      message.isUnanswered = false
      message.sentAt = performance.now() - RESEND_AFTER + RETRY_AFTER
      // Another relay has sent the same, and the servers are about to agree on it.
      if (!answer.refusal.endsWith('is in process')) say(answer.refusal)
      return
    }
    waiting.delete(token)
    message.done(answer.isDuplicate)
  }

  async function watch(): Promise<void> {
    for await (const { type } of connection.status()) {
      if (life.signal.aborted) return
      if (type === 'disconnect') isConnected = false
      if (type !== 'reconnect') continue
      isConnected = true
      for (const [token, message] of waiting) send(token, message)
    }
  }

  const subscription = connection.subscribe(`${inbox}.*`, { callback: receive })
  const timer = setInterval(sendAgain, CHECK_INTERVAL)
  life.defer(() => {
    clearInterval(timer)
    subscription.unsubscribe()
    waiting.clear()
  })
  void watch()

  return {
    publish(subject, data, id, done) {
      const token = (count++).toString(36)
      const message = { subject, data, id, done, sentAt: 0, isUnanswered: true }
      waiting.set(token, message)
      send(token, message)
    },
    get pending() {
      return waiting.size
    },
    close: () => life.end(),
  }
}

/** Where a connection has an inbox of its own, it may subscribe to no other. */
function inboxPrefixOf(connection: NatsConnection): string | undefined {
  const { options } = connection as { readonly options?: { readonly inboxPrefix?: string } }
  return options?.inboxPrefix
}

/** Says an error of a kind at most every ten seconds. */
function limitErrors(
  stream: string,
  failed: (error: RelayLogError) => void,
): (what: string, cause?: unknown) => void {
  const saidAt = new Map<string, number>()
  return function say(what, cause) {
    const now = performance.now()
    // The counts in a message make it no other kind.
    const kind = what.replace(/\d+/g, '')
    if (now - (saidAt.get(kind) ?? Number.NEGATIVE_INFINITY) < ERROR_INTERVAL) return
    saidAt.set(kind, now)
    const message = `stream ${stream}: ${what}; it is tried again`
    failed(
      new RelayLogError(message, { isRetryable: true, ...(cause === undefined ? {} : { cause }) }),
    )
  }
}

const decoder = new TextDecoder()

/** What the log says of a message: whether it had it before, or why it rejects it. */
function readAnswer(
  data: Uint8Array,
): { readonly isDuplicate: boolean } | { readonly refusal: string } {
  try {
    const { error, seq, duplicate } = JSON.parse(decoder.decode(data)) as {
      readonly error?: { readonly description?: unknown }
      readonly seq?: unknown
      readonly duplicate?: unknown
    }
    if (error !== undefined)
      return { refusal: `the log rejects messages: ${String(error.description)}` }
    if (typeof seq === 'number') return { isDuplicate: duplicate === true }
  } catch {
    // It is no JSON.
  }
  return { refusal: 'what answers is no log' }
}
