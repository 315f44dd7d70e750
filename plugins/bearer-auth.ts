import type { Plugin } from '../client/contract/plugin.js'
import { abortable } from '../core/async.js'
import { ValidationError } from '../core/errors.js'
import { readOptions, type Schema } from '../core/options.js'

/** Options of `bearerAuth`. */
export interface BearerAuthOptions {
  /**
   * The token, or a function that returns it. The function is called before each attempt, so that
   * it can replace an expired token.
   */
  readonly token: string | (() => string | Promise<string>)
}

const schema = {
  token: (_, value) =>
    typeof value === 'function' ? (value as () => Promise<string>) : checkToken(value),
} satisfies Schema<BearerAuthOptions>

/**
 * Sends a token with every attempt, for a gateway that is used instead of the service. In a
 * browser, the token of a stream is sent as a subprotocol, since a browser's WebSocket can't set
 * other headers. The plugin stands below `retry`.
 */
export function bearerAuth(options: BearerAuthOptions): Plugin<never> {
  const { token } = readOptions('bearerAuth', options, schema)
  return {
    name: 'bearer-auth',
    attempt: next =>
      async function authorize(call) {
        const found = typeof token === 'function' ? token() : token
        const current = await abortable(Promise.resolve(found), call.signal)
        call.headers.set('authorization', `Bearer ${checkToken(current)}`)
        return next(call)
      },
  }
}

/** Checks a token. The error does not show it. */
function checkToken(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w.~+/=-]{1,4096}$/.test(value))
    throw new ValidationError(
      'token must be 1 to 4096 letters, digits and the characters -._~+/=, as a bearer token is',
    )
  return value
}
