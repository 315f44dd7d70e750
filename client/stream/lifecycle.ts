import { createDeferred } from '../../core/async.js'
import { DataStreamsError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'

/**
 * Where a stream stands:
 *
 *     idle      not connected yet
 *     running   connecting, connected or reconnecting
 *     failing   about to end by itself: no report is delivered any more
 *     ending    nothing runs any more, and plugins pass on the reports they have kept
 *     failed    ended by itself
 *     closing   closed by its user, its signal or its client: no event comes any more
 *     closed    nothing of it is left
 */
export type Phase = 'idle' | 'running' | 'failing' | 'ending' | 'failed' | 'closing' | 'closed'

/** The life of a stream: the one place that knows where it stands. */
export class Lifecycle {
  readonly #life: Lifetime
  readonly #user: AbortSignal | undefined
  readonly #opened = createDeferred()
  readonly #closed = createDeferred()
  #phase: Phase = 'idle'
  #failure: Error | undefined

  /**
   * A life that ends with the client's at the latest, or with the signal of the stream's options.
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

  /** Aborted when the stream ends, with the reason. */
  get signal(): AbortSignal {
    return this.#life.signal
  }

  /** Whether the stream has ended. */
  get isOver(): boolean {
    return this.#life.isOver
  }

  /** The error that ends the stream, or has ended it, where it ends by itself. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Settles with the first open connection for every feed, or when there is none to be had. */
  get opened(): Promise<void> {
    return this.#opened.promise
  }

  get isOpened(): boolean {
    return this.#opened.isSettled
  }

  /** Settles when the stream has ended: rejects with its failure. */
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

  /** Nothing of it runs any more. */
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

  /** The stream ends because somebody wants it to. */
  close(reason: Error): void {
    this.#life.end(reason)
  }

  /** Nothing of the stream is left. */
  finish(): void {
    this.#phase = 'closed'
    this.#opened.reject(this.closedError('the stream was closed before it was connected'))
    this.#closed.resolve()
  }

  /** The error of a method that is called after the end. */
  closedError(message: string): DataStreamsError {
    const cause = this.#life.reason
    const isAborted = this.#user?.aborted === true && this.#user.reason === cause
    return new DataStreamsError(
      isAborted ? 'the stream was aborted by the signal of its options' : message,
      { code: 'CLOSED', cause },
    )
  }
}
