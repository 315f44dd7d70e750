import { type EnclavePlugin, type HeaderLines, requestSize, utf8Length } from './call.js'
import { EnclaveError } from './errors.js'
import { renderTemplate } from './templates/template.js'

/** The largest size of a filled request without `limits`, in bytes: a few short templates can expand to any length. */
const MAX_FILLED = 1_024_000

/**
 * Fills `{{.name}}` in header values and in a body that is text: with the public value of that name if there is one, else with
 * the released secret. A name that has neither is an error, and nothing is sent.
 */
export function templates(): EnclavePlugin {
  return {
    name: 'templates',
    attempt: next =>
      async function fillPlaceholders(call) {
        const { body, multiHeaders } = call
        const find = (name: string): string | undefined =>
          call.publicValues.get(name) ?? call.released.get(name)
        // Everything that holds no template counts as well.
        const unfilled = requestSize({
          url: call.url,
          multiHeaders: new Map(
            [...multiHeaders].map(([name, lines]) => [name, lines.map(() => '')]),
          ),
          ...(typeof body === 'object' && { body }),
        })
        let left = (call.connection.maxRequestBytes ?? MAX_FILLED) - unfilled
        function fill(field: string, template: string): string {
          const filled = renderTemplate(field, template, find, left)
          left -= utf8Length(filled)
          return filled
        }
        return next({
          ...call,
          multiHeaders: fillHeaders(multiHeaders, fill),
          ...(typeof body === 'string' && { body: fill('request.bodyString', body) }),
        })
      },
  }
}

function fillHeaders(
  headers: HeaderLines,
  fill: (field: string, template: string) => string,
): HeaderLines {
  const filled = [...headers].map(([name, lines]) => {
    const values = lines.map((line, index) => {
      const field = `request.multiHeaders.${name}.values[${index}]`
      const value = fill(field, line)
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
