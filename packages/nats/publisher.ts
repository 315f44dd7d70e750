import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { createErrorLimit, RelayLogError } from './errors.js'
import { loadTransport } from './library.js'
import type { ReportLog } from './log.js'

interface Pending {
  readonly subject: string
  readonly data: Uint8Array
  readonly id: string
  readonly done: (isDuplicate: boolean) => void
  /** When the message was last sent, in ms of `performance.now`. */
  sentAt: number
  /** True if no answer has come since the message was last sent. */
  isUnanswered: boolean
}

/** Milliseconds without an acknowledgement after which a message is sent again. */
const RESEND_AFTER = 5000
/** Milliseconds after which a message that the log rejected is sent again. */
const RETRY_AFTER = 500
/** Milliseconds between two checks for messages that must be sent again. */
const CHECK_INTERVAL = 250

/**
 * Publishes many messages at a time, and sends each again until the log has acknowledged it. The
 * library's own `publish` needs a timer and a promise for each message, which costs more than the
 * message itself. This class has one subscription for all acknowledgements, and one timer.
 */
export class Publisher {
  readonly #connection: NatsConnection
  readonly #stream: string
  readonly #failed: (error: RelayLogError) => void
  readonly #headers: typeof import('@nats-io/transport-node').headers
  readonly #inbox: string
  readonly #subscription: { unsubscribe(): void }
  readonly #timer: ReturnType<typeof setInterval>
  readonly #waiting = new Map<string, Pending>()
  readonly #maySay = createErrorLimit()
  #count = 0
  #isConnected = true
  #isClosed = false

  /** Creates a publisher for a log. `failed` gets at most one error of each kind in ten seconds. */
  static async open(log: ReportLog, failed: (error: RelayLogError) => void): Promise<Publisher> {
    return new Publisher(log, failed, await loadTransport())
  }

  constructor(
    { connection, stream }: ReportLog,
    failed: (error: RelayLogError) => void,
    { createInbox, headers }: typeof import('@nats-io/transport-node'),
  ) {
    this.#connection = connection
    this.#stream = stream
    this.#failed = failed
    this.#headers = headers
    this.#inbox = createInbox(inboxPrefixOf(connection))
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message)
      },
    })
    this.#timer = setInterval(() => this.#sendAgain(), CHECK_INTERVAL)
    void this.#watch()
  }

  /** How many messages the log has not acknowledged. */
  get pending(): number {
    return this.#waiting.size
  }

  publish(
    subject: string,
    data: Uint8Array,
    id: string,
    done: (isDuplicate: boolean) => void,
  ): void {
    const token = (this.#count++).toString(36)
    const message = { subject, data, id, done, sentAt: 0, isUnanswered: true }
    this.#waiting.set(token, message)
    this.#send(token, message)
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#subscription.unsubscribe()
    this.#waiting.clear()
  }

  #send(token: string, message: Pending): void {
    message.sentAt = performance.now()
    message.isUnanswered = true
    // Sent after the reconnect instead: the library would store the message while it is
    // disconnected.
    if (!this.#isConnected) return
    const headers = this.#headers()
    headers.set('Nats-Msg-Id', message.id)
    try {
      const reply = `${this.#inbox}.${token}`
      this.#connection.publish(message.subject, message.data, { reply, headers })
    } catch (thrown) {
      this.#say('the log can not be reached', thrown)
    }
  }

  #sendAgain(): void {
    const before = performance.now() - RESEND_AFTER
    let isLate = false
    for (const [token, message] of this.#waiting) {
      if (message.sentAt > before) continue
      isLate ||= message.isUnanswered
      this.#send(token, message)
    }
    if (isLate && !this.#connection.isClosed())
      this.#say(
        `the log has acknowledged nothing of ${this.pending} messages for ${RESEND_AFTER} ms`,
      )
  }

  #receive({ subject, data, headers: status }: Msg): void {
    const token = subject.slice(this.#inbox.length + 1)
    const message = this.#waiting.get(token)
    if (message === undefined) return
    const answer =
      status?.code === 503 ? { refusal: 'no stream takes the subject' } : readAnswer(data)
    if ('refusal' in answer) {
      message.isUnanswered = false
      message.sentAt = performance.now() - RESEND_AFTER + RETRY_AFTER
      // Not an error: another relay has sent the same message, and the servers are still storing
      // it.
      if (!answer.refusal.endsWith('is in process')) this.#say(answer.refusal)
      return
    }
    this.#waiting.delete(token)
    message.done(answer.isDuplicate)
  }

  async #watch(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (this.#isClosed) return
      if (type === 'disconnect') this.#isConnected = false
      if (type !== 'reconnect') continue
      this.#isConnected = true
      for (const [token, message] of this.#waiting) this.#send(token, message)
    }
  }

  #say(what: string, cause?: unknown): void {
    // Messages that differ only in numbers are of one kind.
    if (!this.#maySay(what.replace(/\d+/g, ''))) return
    const message = `stream ${this.#stream}: ${what}; it is tried again`
    const facts = { isRetryable: true, ...(cause === undefined ? {} : { cause }) }
    this.#failed(new RelayLogError(message, facts))
  }
}

/**
 * The inbox prefix of a connection. A connection with its own prefix may be allowed to subscribe
 * only to that prefix.
 */
function inboxPrefixOf(connection: NatsConnection): string | undefined {
  const { options } = connection as { readonly options?: { readonly inboxPrefix?: string } }
  return options?.inboxPrefix
}

const decoder = new TextDecoder()

/** Reads the log's answer: whether the message is a duplicate, or why the log rejects it. */
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
    // The answer is not JSON.
  }
  return { refusal: 'what answers is no log' }
}
