import { type ErrorCode, isStreamsError } from '../../core/errors.js'
import type { EnclavePlugin } from './call.js'

/**
 * The answers to requests that failed: the request never reached the external server, or the server
 * did not answer.
 */
const answers: { readonly [Code in ErrorCode]?: readonly [status: number, body: string] } = {
  POLICY: [400, 'upstream request blocked by enclave network policy'],
  UPSTREAM_HOST: [502, 'upstream host unreachable'],
  UPSTREAM_REFUSED: [502, 'upstream connection refused'],
  UPSTREAM_CLOSED: [502, 'upstream closed the connection before responding'],
  UPSTREAM_TIMEOUT: [504, 'upstream request timed out'],
}

/**
 * Converts network failures into answers with a status and a text. These are the statuses and texts
 * that the service uses.
 */
export function upstreamFailures(): EnclavePlugin {
  return {
    name: 'upstream-failures',
    call: next =>
      async function answerFailure(call) {
        try {
          return await next(call)
        } catch (thrown) {
          const answer = isStreamsError(thrown) ? answers[thrown.code] : undefined
          if (answer === undefined) throw thrown
          const [status, body] = answer
          call.scope.log.warn?.(`${call.operation}: ${(thrown as Error).message}`)
          return { status, multiHeaders: new Map(), body: new TextEncoder().encode(body) }
        }
      },
  }
}
