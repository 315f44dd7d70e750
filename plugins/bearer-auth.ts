import type { Plugin } from '../client/contract/plugin.js'
import { abortable } from '../core/async.js'
import { ValidationError } from '../core/errors.js'
import { checkOptions, type OptionNames } from '../core/options.js'

/** Options of `bearerAuth`. */
export interface BearerAuthOptions {
  /** The token; or a function that returns it, which is asked before each attempt, so that an expired one is replaced. */
  readonly token: string | (() => string | Promise<string>)
}

const names: OptionNames<BearerAuthOptions> = { token: true }

/**
 * Sends a token with every attempt, for a gateway in place of the service. A browser sends that of a stream as a subprotocol, since
 * its WebSocket has no other header. It stands below `retry`.
 */
export function bearerAuth(options: BearerAuthOptions): Plugin<never> {
  const { token } = checkOptions('bearerAuth', options, names)
  const read = typeof token === 'function' ? token : () => token
  if (typeof token !== 'function') checkToken(token)
  return {
    name: 'bearer-auth',
    attempt: next =>
      async function authorize(call) {
        const found = await abortable(Promise.resolve(read()), call.signal)
        call.headers.set('authorization', `Bearer ${checkToken(found)}`)
        return next(call)
      },
  }
}

/** The value is not shown. */
function checkToken(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w.~+/=-]{1,4096}$/.test(value))
    throw new ValidationError(
      'token must be 1 to 4096 letters, digits and the characters -._~+/=, as a bearer token is',
    )
  return value
}
