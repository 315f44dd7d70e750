import { checkBoolean, checkOptions } from '../../../core/options.js'
import { type EnclavePlugin, type HeaderLines, requestSize, utf8Length } from '../call.js'
import { EnclaveError } from '../errors.js'
import { createPolicyGuard } from './policy-guard.js'
import { type FindValue, renderTemplate } from './template.js'

/** Options of `templates`. */
export interface TemplatesOptions {
  /** Refuses secrets that were stored without a policy, which otherwise go anywhere, with a warning. @default false */
  readonly requirePolicies?: boolean
}

/** The largest size of a filled request without `limits`, in bytes: a few short templates can expand to any length. */
const MAX_FILLED = 1_024_000

/**
 * Fills `{{.name}}` in header values and in a body that is text: with the public value of that name if there is one, else with
 * the released secret. A name that has neither is an error, and so is a secret whose policy does not allow where it would go;
 * then nothing is sent.
 */
export function templates(options?: TemplatesOptions): EnclavePlugin {
  const given = checkOptions('templates', options, { requirePolicies: true })
  const requirePolicies = checkBoolean('requirePolicies', given.requirePolicies ?? false)
  const warned = new Set<string>()
  return {
    name: 'templates',
    attempt: next =>
      async function fillPlaceholders(call) {
        const { body, multiHeaders } = call
        const guard = createPolicyGuard(call, requirePolicies, warned)
        // Everything that holds no template counts as well.
        const unfilled = requestSize({
          url: call.url,
          multiHeaders: new Map(
            [...multiHeaders].map(([name, lines]) => [name, lines.map(() => '')]),
          ),
          ...(typeof body === 'object' && { body }),
        })
        let left = (call.connection.maxRequestBytes ?? MAX_FILLED) - unfilled
        function fill(field: string, template: string, place: string): string {
          const find: FindValue = function find(name) {
            const value = call.publicValues.get(name)
            if (value !== undefined) return value
            const secret = call.released.get(name)
            if (secret !== undefined) guard.use(name, place)
            return secret
          }
          const filled = renderTemplate(field, template, find, left)
          left -= utf8Length(filled)
          return filled
        }
        const filled = {
          multiHeaders: fillHeaders(multiHeaders, fill),
          ...(typeof body === 'string' && { body: fill('request.bodyString', body, 'body') }),
        }
        const connection = { ...call.connection, checkTarget: guard.checkTarget }
        return next({ ...call, ...filled, connection })
      },
  }
}

function fillHeaders(
  headers: HeaderLines,
  fill: (field: string, template: string, place: string) => string,
): HeaderLines {
  const filled = [...headers].map(([name, lines]) => {
    const values = lines.map((line, index) => {
      const field = `request.multiHeaders.${name}.values[${index}]`
      const value = fill(field, line, `header:${name.toLowerCase()}`)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: a header can't hold these
      if (!/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) return value
      throw new EnclaveError(
        `${field} must not hold CR, LF, NUL or another control character once its placeholders are filled`,
        { code: 'TEMPLATE' },
      )
    })
    return [name, values] as const
  })
  return new Map(filled)
}
