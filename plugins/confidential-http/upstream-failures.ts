import { type ErrorCode, isStreamsError } from '../../core/errors.js'
import type { EnclavePlugin } from './call.js'

/** The answers for requests that never reached the external server, or that it did not answer. */
const answers: { readonly [Code in ErrorCode]?: readonly [status: number, body: string] } = {
  POLICY: [400, 'upstream request blocked by enclave network policy'],
  UPSTREAM_HOST: [502, 'upstream host unreachable'],
  UPSTREAM_REFUSED: [502, 'upstream connection refused'],
  UPSTREAM_CLOSED: [502, 'upstream closed the connection before responding'],
  UPSTREAM_TIMEOUT: [504, 'upstream request timed out'],
}

/**
 * Converts failures on the way to the external server to answers, with the statuses and texts of
 * the service.
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
