import { utf8Length } from '../call.js'
import { EnclaveError } from '../errors.js'
import { type Action, readAction } from './action.js'
import { functions } from './functions.js'

/** Returns the value of a name, or undefined. */
export type FindValue = (name: string) => string | undefined

/**
 * Fills a template of Go's text/template in one pass: placeholders inside values are not filled. Of the language it supports
 * `{{.name}}`, the functions of `functions`, pipes to them, comments, spaces inside the braces and trim markers; any other
 * action is an error, and so is a result of more than `maxBytes` bytes in UTF-8.
 */
export function renderTemplate(
  field: string,
  template: string,
  find: FindValue,
  maxBytes: number = Number.POSITIVE_INFINITY,
): string {
  const parts: string[] = []
  let left = maxBytes
  function tooLong(): EnclaveError {
    const rule = `${field}: with its placeholders filled, the request is too long`
    return new EnclaveError(rule, { code: 'LIMIT' })
  }
  function push(part: string): void {
    left -= utf8Length(part)
    if (left < 0) throw tooLong()
    parts.push(part)
  }
  function findValue(name: string): string {
    const value = find(name)
    if (value === undefined) throw noValue(field, name)
    return value
  }
  function evaluate({ steps }: Action): string | undefined {
    let value: string | undefined
    for (const { run, names } of steps) {
      const values = [...names.map(findValue), ...(value === undefined ? [] : [value])]
      // Escaping only lengthens, so what is too long on the way is too long at the end.
      if (values.reduce((sum, { length }) => sum + length, 0) > left) throw tooLong()
      value = run === undefined ? (values[0] ?? '') : run(field, values)
    }
    return value
  }

  let at = 0
  let trimNext = false
  for (;;) {
    const start = template.indexOf('{{', at)
    const text = template.slice(at, start === -1 ? undefined : start)
    const rest = trimNext ? text.replace(/^[ \t\r\n]+/, '') : text
    if (start === -1) {
      push(rest)
      return parts.join('')
    }
    const action = readAction(template, start)
    if (action === undefined) throw unknownAction(field, template, start)
    push(action.trimBefore ? trimEnd(rest) : rest)
    const value = evaluate(action)
    if (value !== undefined) push(value)
    trimNext = action.trimAfter
    at = action.end
  }
}

function trimEnd(text: string): string {
  let end = text.length
  while (end > 0 && ' \t\r\n'.includes(text[end - 1] as string)) end--
  return text.slice(0, end)
}

const MAX_QUOTE = 40

/** Bounds the names and actions that errors quote. */
function shorten(text: string): string {
  return text.length > MAX_QUOTE ? `${text.slice(0, MAX_QUOTE)}…` : text
}

function noValue(field: string, name: string): EnclaveError {
  return new EnclaveError(
    `${field}: nothing is known for the placeholder {{.${shorten(name)}}}: list it in vaultDonSecrets or templatePublicValues`,
    { code: 'TEMPLATE' },
  )
}

function unknownAction(field: string, template: string, start: number): EnclaveError {
  const close = template.indexOf('}}', start)
  const action = template.slice(start, close === -1 ? undefined : close + 2)
  return new EnclaveError(
    `${field}: ${JSON.stringify(shorten(action))} is no placeholder: write {{.name}}, a letter or underscore first and then letters, digits and underscores, or a function before it (${[...functions.keys()].join(', ')}), as in {{json .name}}`,
    { code: 'TEMPLATE' },
  )
}
