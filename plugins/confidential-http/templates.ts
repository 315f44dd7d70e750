import type { EnclavePlugin, HeaderLines } from './call.js'
import { EnclaveError } from './errors.js'
import { requestSize, utf8Length } from './request-size.js'
import { renderTemplate } from './templates/template.js'

/** The bytes a filled request may come to, where no limit says: a few short templates can make a body of any length. */
const MAX_FILLED = 1_024_000

/**
 * Fills `{{.name}}` in a body given as text and in header values: with the public value of that name where there is
 * one, else with the released secret. Names that have neither are errors, and nothing is sent.
 */
export function templates(): EnclavePlugin {
  return {
    name: 'templates',
    attempt: next =>
      async function fillPlaceholders(call) {
        const { body, multiHeaders } = call
        const find = (name: string): string | undefined =>
          call.publicValues.get(name) ?? call.released.get(name)
        // What is not filled is sent as well.
        const unfilled = requestSize({
          url: call.url,
          multiHeaders: emptyHeaders(multiHeaders),
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

/** The lines of headers, without their values. */
function emptyHeaders(headers: HeaderLines): HeaderLines {
  return new Map([...headers].map(([name, lines]) => [name, lines.map(() => '')]))
}

type Fill = (field: string, template: string) => string

function fillHeaders(headers: HeaderLines, fill: Fill): HeaderLines {
  const filled = [...headers].map(([name, lines]) => {
    const values = lines.map((line, index) => {
      const field = `request.multiHeaders.${name}.values[${index}]`
      const value = fill(field, line)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a header can't hold
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
