import { createDeferred } from '../../core/async.js'
import { DataStreamsError, isStreamsError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'

/**
 * The phases of a stream:
 *
 *     idle      not connected yet
 *     running   connecting, connected or reconnecting
 *     failing   about to end by itself: no report is delivered any more
 *     ending    all connections have ended, and plugins pass on the reports that they hold
 *     failed    ended by itself
 *     closing   closed by its user, its signal or its client: no event is emitted any more
 *     closed    everything in the stream has ended
 */
export type Phase = 'idle' | 'running' | 'failing' | 'ending' | 'failed' | 'closing' | 'closed'

/** Marks the error that ends a stream, and says for the log what to do. */
export function markFinal(error: Error): string {
  if (Object.isExtensible(error)) Object.assign(error, { isFinal: true })
  const isGivenUp = isStreamsError(error, 'WS_GAVE_UP')
  const remedy = isGivenUp
    ? ', or set maxReconnectAttempts to Infinity, so that it never gives up'
    : ''
  return `the stream has ended: ${error.message}. To go on, create another stream${remedy}`
}

/** The life of a stream. Only this class knows the phase of the stream. */
export class Lifecycle {
  readonly #life: Lifetime
  readonly #user: AbortSignal | undefined
  readonly #opened = createDeferred()
  readonly #closed = createDeferred()
  #phase: Phase = 'idle'
  #failure: Error | undefined

  /**
   * Makes a life that ends when the client ends, or when the signal of the stream's options aborts.
   */
  constructor(client: Lifetime, user: AbortSignal | undefined) {
    this.#life = createLifetime(client, user)
    this.#user = user
    this.#life.defer(() => {
      if (this.#phase !== 'failed' && this.#phase !== 'closed') this.#phase = 'closing'
    })
  }

  get phase(): Phase {
    return this.#phase
  }

  /** Aborts with the reason when the stream ends. */
  get signal(): AbortSignal {
    return this.#life.signal
  }

  /** Whether the stream has ended. */
  get isOver(): boolean {
    return this.#life.isOver
  }

  /** The error that ends the stream or has ended it; undefined unless the stream ends by itself. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Resolves when every feed has an open connection. Rejects if the stream ends before that. */
  get opened(): Promise<void> {
    return this.#opened.promise
  }

  get isOpened(): boolean {
    return this.#opened.isSettled
  }

  /** Settles when the stream has ended. Rejects with the failure if there is one. */
  get closed(): Promise<void> {
    return this.#closed.promise
  }

  /** Runs the task when the stream ends. */
  readonly defer = (task: () => void): void => this.#life.defer(task)

  start(): void {
    this.#phase = 'running'
  }

  open(): void {
    this.#opened.resolve()
  }

  /** The stream will end by itself. The first reason counts. */
  beginFailure(error: Error): void {
    this.#failure ??= error
    if (this.#phase === 'running') this.#phase = 'failing'
  }

  /** All connections have ended, and plugins may pass on the reports that they hold. */
  beginEnding(error: Error): void {
    this.#failure ??= error
    if (this.#phase === 'running') this.#phase = 'ending'
  }

  /** The stream has ended by itself. */
  fail(error: Error): void {
    this.#phase = 'failed'
    this.#failure = error
    this.#life.end(error)
    this.#opened.reject(error)
    this.#closed.reject(error)
  }

  /** The stream ends because its user has closed it. */
  close(reason: Error): void {
    this.#life.end(reason)
  }

  /** Everything in the stream has ended. */
  finish(): void {
    this.#phase = 'closed'
    this.#opened.reject(this.closedError('the stream was closed before it was connected'))
    this.#closed.resolve()
  }

  /** Makes the error for a method that is called after the end. */
  closedError(message: string): DataStreamsError {
    const cause = this.#life.reason
    const isAborted = this.#user?.aborted === true && this.#user.reason === cause
    return new DataStreamsError(
      isAborted ? 'the stream was aborted by the signal of its options' : message,
      { code: 'CLOSED', cause },
    )
  }
}
