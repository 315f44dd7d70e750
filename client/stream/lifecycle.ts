import { createDeferred } from '../../core/async.js'
import { DataStreamsError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'

/**
 * Where a stream stands:
 *
 *     idle      not connected yet
 *     running   connecting, connected or reconnecting
 *     failing   about to end by itself: no report is delivered any more
 *     ending    nothing runs any more, and plugins pass on what they have kept
 *     failed    ended by itself
 *     closing   closed by its user, its signal or its client: no event comes any more
 *     closed    nothing of it is left
 */
export type Phase = 'idle' | 'running' | 'failing' | 'ending' | 'failed' | 'closing' | 'closed'

/** The life of a stream: the one place that knows where it stands. */
export interface Lifecycle {
  readonly phase: Phase
  /** Aborted when it ends, with the reason. */
  readonly signal: AbortSignal
  defer(task: () => void): void
  /** The error that ends it, or has ended it, where it ends by itself. */
  readonly failure: Error | undefined
  /** Settles with the first open connection for every feed, or when there is none to be had. */
  readonly opened: Promise<void>
  readonly isOpened: boolean
  readonly isStarted: boolean
  /** Settles when it has ended: rejects with its failure. */
  readonly closed: Promise<void>
  start(): void
  open(): void
  /** It will end by itself. The first reason counts. */
  beginFailure(error: Error): void
  /** Nothing of it runs any more. */
  beginEnding(error: Error): void
  /** It has ended by itself. */
  fail(error: Error): void
  /** It ends because somebody wants it to. */
  close(reason: Error): void
  /** Nothing of it is left. */
  finish(): void
  /** The error of a method that is called after the end. */
  closedError(message: string): DataStreamsError
}

/** A life that ends with the client's at the latest, or with the signal of the stream's options. */
export function createLifecycle(client: Lifetime, user: AbortSignal | undefined): Lifecycle {
  const life = createLifetime(client, user)
  const opened = createDeferred()
  const closed = createDeferred()
  let phase: Phase = 'idle'
  let failure: Error | undefined
  let isStarted = false
  life.defer(() => {
    if (phase !== 'failed' && phase !== 'closed') phase = 'closing'
  })

  function closedError(message: string): DataStreamsError {
    const cause: unknown = life.signal.reason
    const isAborted = user?.aborted === true && user.reason === cause
    return new DataStreamsError(
      isAborted ? 'the stream was aborted by the signal of its options' : message,
      { code: 'CLOSED', cause },
    )
  }

  return {
    get phase() {
      return phase
    },
    signal: life.signal,
    defer: life.defer,
    get failure() {
      return failure
    },
    opened: opened.promise,
    get isOpened() {
      return opened.isSettled
    },
    closed: closed.promise,
    get isStarted() {
      return isStarted
    },
    start() {
      phase = 'running'
      isStarted = true
    },
    open: opened.resolve,
    beginFailure(error) {
      failure ??= error
      if (phase === 'running') phase = 'failing'
    },
    beginEnding(error) {
      failure ??= error
      if (phase === 'running') phase = 'ending'
    },
    fail(error) {
      phase = 'failed'
      failure = error
      life.end(error)
      opened.reject(error)
      closed.reject(error)
    },
    close: life.end,
    finish() {
      phase = 'closed'
      opened.reject(closedError('the stream was closed before it was connected'))
      closed.resolve()
    },
    closedError,
  }
}
