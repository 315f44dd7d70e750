import { withBytes } from '../call.js'
import { EnclaveError } from '../errors.js'

/** Takes the values of its arguments. Throws EnclaveError, whose message names no value, after `field`. */
export type TemplateFunction = (field: string, values: readonly string[]) => string

/** The functions of templates, by name. `js` and `urlquery` are Go's, the others ours. */
export const functions: ReadonlyMap<string, TemplateFunction> = new Map<string, TemplateFunction>([
  ['json', (field, values) => JSON.stringify(only(field, values))],
  ['basicAuth', basicAuth],
  // Of several arguments Go escapes all in a row.
  ['js', (_, values) => escapeJs(values.join(''))],
  ['urlquery', (_, values) => escapeQuery(values.join(''))],
])

function only(field: string, values: readonly string[]): string {
  const [value] = values
  if (value !== undefined && values.length === 1) return value
  throw wrong(`${field}: json must have one argument, as in {{json .name}}, not ${values.length}`)
}

/** What follows the word Basic in a header (RFC 7617). */
function basicAuth(field: string, values: readonly string[]): string {
  const [user, password] = values
  if (user === undefined || password === undefined || values.length !== 2)
    throw wrong(
      `${field}: basicAuth must have two arguments, as in {{basicAuth .user .password}}, not ${values.length}`,
    )
  if (user.includes(':'))
    throw wrong(`${field}: basicAuth must have a user without a colon, which ends it`)
  if (/\p{Cc}/u.test(user + password))
    throw wrong(
      `${field}: basicAuth must have a user and a password without control characters, such as a line break at the end`,
    )
  return withBytes(`${user}:${password}`, bytes => bytes.toString('base64'))
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '"': '\\"' }

/** Escapes a text as Go's template.JSEscape does: for between the quotes of a string in JavaScript. */
function escapeJs(text: string): string {
  // Go leaves DEL, and what it counts as printable.
  return text.replace(
    /[\\'"<>&=]|(?![ \x7f\p{L}\p{M}\p{N}\p{P}\p{S}])./gsu,
    char => SHORT_ESCAPES[char] ?? `\\u${hexOf(char.codePointAt(0) ?? 0, 4)}`,
  )
}

/** Escapes a text as Go's url.QueryEscape does. */
function escapeQuery(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, char => `%${hexOf(char.charCodeAt(0), 2)}`)
    .replaceAll('%20', '+')
}

function hexOf(number: number, digits: number): string {
  return number.toString(16).toUpperCase().padStart(digits, '0')
}

function wrong(rule: string): EnclaveError {
  return new EnclaveError(rule, { code: 'TEMPLATE' })
}
