import { utf8Length } from '../call.js'
import { EnclaveError } from '../errors.js'

/** Returns the value of a name, or undefined. */
export type FindValue = (name: string) => string | undefined

/** `{{.name}}`, with optional spaces around the name and optional trim markers, each separated by a space. */
const placeholder =
  /\{\{(-[ \t\r\n])?[ \t\r\n]*\.((?![0-9])[_\p{L}\p{Nd}]+)(?:([ \t\r\n]+-)|[ \t\r\n]*)\}\}/uy
const commentStart = /\{\{(-[ \t\r\n])?\/\*/uy
const commentEnd = /\*\/([ \t\r\n]-)?\}\}/uy

/**
 * Fills a template of Go's text/template in one pass: placeholders inside values are not filled. Of the language it supports
 * `{{.name}}`, comments, spaces inside the braces and trim markers; any other action is an error, and so is a result of more
 * than `maxBytes` bytes in UTF-8.
 */
export function renderTemplate(
  field: string,
  template: string,
  find: FindValue,
  maxBytes: number = Number.POSITIVE_INFINITY,
): string {
  const parts: string[] = []
  let bytes = 0
  function push(part: string): void {
    bytes += utf8Length(part)
    if (bytes > maxBytes)
      throw new EnclaveError(`${field}: with its placeholders filled, the request is too long`, {
        code: 'LIMIT',
      })
    parts.push(part)
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
    if (action.name !== undefined) {
      const value = find(action.name)
      if (value === undefined) throw noValue(field, action.name)
      push(value)
    }
    trimNext = action.trimAfter
    at = action.end
  }
}

interface Action {
  /** Absent for a comment. */
  readonly name?: string
  readonly trimBefore: boolean
  readonly trimAfter: boolean
  readonly end: number
}

function readAction(template: string, start: number): Action | undefined {
  const found = matchAt(placeholder, template, start)
  if (found !== null) {
    const [all, left, name, right] = found
    return {
      ...(name === undefined ? {} : { name }),
      trimBefore: left !== undefined,
      trimAfter: right !== undefined,
      end: start + all.length,
    }
  }
  const opened = matchAt(commentStart, template, start)
  if (opened === null) return undefined
  const close = template.indexOf('*/', start + opened[0].length)
  const closed = close === -1 ? null : matchAt(commentEnd, template, close)
  if (closed === null) return undefined
  return {
    trimBefore: opened[1] !== undefined,
    trimAfter: closed[1] !== undefined,
    end: close + closed[0].length,
  }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
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
    `${field}: ${JSON.stringify(shorten(action))} is no placeholder: write {{.name}}, a letter or underscore first and then letters, digits and underscores`,
    { code: 'TEMPLATE' },
  )
}
