import type { Msg, NatsConnection } from '@nats-io/transport-node'
import type { Health, Severity } from 'sluice/internal'
import { createErrorLimit, RelayLogError } from './errors.js'
import { loadTransport } from './library.js'
import type { ReportLog } from './log.js'
import { isDenied, withRemedy } from './refusals.js'

/** A cause of a service that publishes to a log. */
export type PublisherCause =
  | 'publish-unanswered'
  | 'publish-refused'
  | 'log-full'
  | 'publish-denied'

/** The causes of a service that publishes to a log. Each is over when the log stores a message. */
export const publisherCauses: Readonly<Record<PublisherCause, Severity>> = {
  /** The log has not answered for five seconds. */
  'publish-unanswered': 'unready',
  /** The log rejects messages. */
  'publish-refused': 'unready',
  /** The log has no room: its disk, or its share of the disk, is full. */
  'log-full': 'unready',
  /** The user of the connection may not publish to the log. */
  'publish-denied': 'unready',
}

interface Pending {
  readonly subject: string
  readonly data: Uint8Array
  readonly id: string
  readonly done: (isDuplicate: boolean) => void
  /** When the message was first sent, in ms of `performance.now`. */
  readonly publishedAt: number
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
/** Answers of a log that has no room. */
const FULL =
  /insufficient (storage )?resources|maximum (bytes|messages) exceeded|no space left|limits? exceeded|storage/i

/**
 * Publishes many messages at a time, and sends each again until the log has acknowledged it. The
 * library's own `publish` needs a timer and a promise for each message, which costs more than the
 * message itself. This class has one subscription for all acknowledgements, and one timer.
 */
export class Publisher {
  readonly #connection: NatsConnection
  readonly #stream: string
  readonly #health: Health<PublisherCause>
  readonly #failed: (error: RelayLogError) => void
  readonly #headers: typeof import('@nats-io/transport-node').headers
  readonly #inbox: string
  readonly #subscription: { unsubscribe(): void }
  readonly #timer: ReturnType<typeof setInterval>
  readonly #waiting = new Map<string, Pending>()
  readonly #maySay = createErrorLimit()
  #count = 0
  /** The cause that the health of this publisher has at present. */
  #cause: PublisherCause | undefined
  #rejected = 0
  #isConnected = true
  #isClosed = false

  /** Creates a publisher for a log. `failed` gets at most one error of each kind in ten seconds. */
  static async open(
    log: ReportLog,
    health: Health<PublisherCause>,
    failed: (error: RelayLogError) => void,
  ): Promise<Publisher> {
    return new Publisher(log, health, failed, await loadTransport())
  }

  constructor(
    { connection, stream }: ReportLog,
    health: Health<PublisherCause>,
    failed: (error: RelayLogError) => void,
    { createInbox, headers }: typeof import('@nats-io/transport-node'),
  ) {
    this.#connection = connection
    this.#stream = stream
    this.#health = health
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

  /** How often the log has rejected a message. */
  get rejected(): number {
    return this.#rejected
  }

  /** For how many milliseconds the oldest message has waited for the log; 0 if none waits. */
  get oldestMs(): number {
    for (const { publishedAt } of this.#waiting.values()) return performance.now() - publishedAt
    return 0
  }

  publish(
    subject: string,
    data: Uint8Array,
    id: string,
    done: (isDuplicate: boolean) => void,
  ): void {
    const token = (this.#count++).toString(36)
    const publishedAt = performance.now()
    const message = { subject, data, id, done, publishedAt, sentAt: 0, isUnanswered: true }
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
    if (!isLate || this.#connection.isClosed()) return
    const late = `the log has acknowledged nothing of ${this.pending} messages for ${RESEND_AFTER} ms`
    this.#begin('publish-unanswered', late)
    this.#say(late)
  }

  #receive({ subject, data, headers: status }: Msg): void {
    const token = subject.slice(this.#inbox.length + 1)
    const message = this.#waiting.get(token)
    if (message === undefined) return
    const answer =
      status?.code === 503
        ? { refusal: 'no stream takes the subject, or its servers have no quorum' }
        : readAnswer(data)
    if ('refusal' in answer) {
      message.isUnanswered = false
      message.sentAt = performance.now() - RESEND_AFTER + RETRY_AFTER
      // Not an error: another relay has sent the same message, and the servers are still storing
      // it.
      if (answer.refusal.endsWith('is in process')) return
      this.#rejected++
      this.#begin(FULL.test(answer.refusal) ? 'log-full' : 'publish-refused', answer.refusal)
      this.#say(answer.refusal)
      return
    }
    this.#waiting.delete(token)
    if (this.#cause !== undefined) this.#begin(undefined)
    message.done(answer.isDuplicate)
  }

  async #watch(): Promise<void> {
    for await (const status of this.#connection.status()) {
      const { type } = status
      if (this.#isClosed) return
      if (type === 'error' && isDenied(status.error.message) && this.#isOwn(status.error.message))
        this.#begin('publish-denied', status.error.message)
      if (type === 'disconnect') this.#isConnected = false
      if (type !== 'reconnect') continue
      this.#isConnected = true
      for (const [token, message] of this.#waiting) this.#send(token, message)
    }
  }

  /** True if the server's message about a permission names a subject that is published to. */
  #isOwn(message: string): boolean {
    for (const { subject } of this.#waiting.values()) return message.includes(`"${subject}"`)
    return false
  }

  /** Begins a problem in place of the present one. Without a cause, the present one is over. */
  #begin(cause: PublisherCause | undefined, message?: string): void {
    const present = this.#cause
    // Messages that get no answer and those that are rejected alternate: the reason is said.
    if (cause === 'publish-unanswered' && present !== undefined && present !== cause) return
    if (cause === 'publish-refused' && present === 'log-full') return
    if (this.#cause !== undefined && this.#cause !== cause) this.#health.set(this.#cause)
    this.#cause = cause
    if (cause !== undefined) this.#health.set(cause, message)
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
      readonly error?: { readonly description?: unknown; readonly err_code?: unknown }
      readonly seq?: unknown
      readonly duplicate?: unknown
    }
    if (error !== undefined) {
      const message = String(error.description)
      const reason = withRemedy(message, { message, code: error.err_code })
      return { refusal: `the log rejects messages: ${reason}` }
    }
    if (typeof seq === 'number') return { isDuplicate: duplicate === true }
  } catch {
    // The answer is not JSON.
  }
  return { refusal: 'what answers is no log' }
}
