import { onAbort } from '../../core/async.js'
import { foreignCause, isStreamsError } from '../../core/errors.js'
import { describeCall, type RequestCall, type RequestReply } from '../contract/call.js'
import { APIError, type WireErrorFacts } from '../contract/errors.js'
import { adviseOn } from '../network-reason.js'
import type { Present } from '../present.js'
import { createHttp, type Fetch, type HttpAnswer } from '../transport/http.js'
import { errorFromAnswer, repeatsHeader } from './http-error.js'

/** Options of `createSend`. */
export interface SendOptions {
  /** Sends requests. @default the platform's */
  readonly fetch?: Fetch | undefined
  /** Milliseconds from the first byte of a request to the last byte of its answer. */
  readonly timeout: number
  readonly maxBodyBytes: number
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** Takes the date of each answer. */
  readonly present: Present
}

/** Sends a request. */
export type Send = (call: RequestCall) => Promise<RequestReply>

/**
 * Makes the function that sends requests. It resolves with a successful answer and its whole body.
 * It rejects with APIError or AuthenticationError, or with the reason of `call.signal`.
 */
export function createSend({ fetch, timeout, maxBodyBytes, now, present }: SendOptions): Send {
  const http = createHttp(fetch)

  /** Makes one attempt. The signal or the timeout ends it even if `http` ignores its own signal. */
  function attempt(call: RequestCall): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const controller = new AbortController()
      const { signal } = controller

      function settle(): void {
        clearTimeout(timer)
        forget()
      }
      function abort(reason: unknown): void {
        settle()
        controller.abort(reason)
        reject(reason)
      }
      const forget = onAbort(call.signal, () => abort(call.signal.reason))
      const timer = setTimeout(() => abort(timedOut(call, timeout)), timeout)
      http({ ...call, signal }, maxBodyBytes).then(
        answer => {
          settle()
          resolve(answer)
        },
        thrown => abort(isStreamsError(thrown) ? thrown : networkError(call, thrown)),
      )
    })
  }

  return async function send(call) {
    if (call.signal.aborted) throw call.signal.reason
    const sent = performance.now()
    const answer = await attempt(call)
    const received = performance.now()
    const error = isSuccess(answer) ? undefined : errorFromAnswer(call, answer, now)
    // Who has answered in place of the service does not tell its time.
    if (!(error as WireErrorFacts | undefined)?.isForeign)
      present.dated(new URL(call.url).host, answer.headers, sent, received)
    if (error !== undefined) throw error
    return { kind: 'request', ...answer, repeatsSecret: text => repeatsHeader(text, call.headers) }
  }
}

function isSuccess({ status }: HttpAnswer): boolean {
  return status >= 200 && status <= 299
}

function timedOut(call: RequestCall, timeout: number): APIError {
  return new APIError(`${describeCall(call)} was not answered within ${timeout} ms`, {
    code: 'API_TIMEOUT',
  })
}

function networkError(call: RequestCall, cause: unknown): APIError {
  return new APIError(`${describeCall(call)} failed on the network: ${adviseOn(cause)}`, {
    code: 'API_NETWORK',
    cause: foreignCause(cause),
  })
}
