import { utf8Length, withBytes } from '../call.js'
import { EnclaveError } from '../errors.js'

/**
 * A function of templates. It gets the values of its arguments. It may throw an EnclaveError whose
 * message starts with `field` and quotes no value.
 */
export type TemplateFunction = (field: string, values: readonly string[]) => string

/**
 * The functions of templates, by name. `js` and `urlquery` are functions of Go. This library adds
 * the other functions.
 */
export const functions: ReadonlyMap<string, TemplateFunction> = new Map<string, TemplateFunction>([
  ['json', (field, values) => JSON.stringify(only(field, values))],
  ['basicAuth', basicAuth],
  // Go joins several arguments and escapes the joined text.
  ['js', (_, values) => escapeJs(values.join(''))],
  ['urlquery', (_, values) => escapeQuery(values.join(''))],
])

/**
 * The most bytes that a function makes of one byte of its arguments, and adds to that. An escape of
 * `json` or `js` has six bytes for a byte.
 */
const MAX_GROWTH = 6
const MAX_ADDED = 8

function only(field: string, values: readonly string[]): string {
  const [value] = values
  if (value !== undefined && values.length === 1) return value
  throw wrong(`${field}: json must have one argument, as in {{json .name}}, not ${values.length}`)
}

/** Makes the credentials that follow the word Basic in an `Authorization` header (RFC 7617). */
function basicAuth(field: string, values: readonly string[]): string {
  const [user, password] = values
  if (user === undefined || password === undefined || values.length !== 2)
    throw wrong(
      `${field}: basicAuth must have two arguments, as in {{basicAuth .user .password}}, not ${values.length}`,
    )
  // One text for both rules, because the user may be a secret: nobody learns which one it breaks.
  if (user.includes(':') || /\p{Cc}/u.test(user + password))
    throw wrong(
      `${field}: basicAuth must have a user without a colon, which ends it, and no control character in user or password, such as a line break at the end`,
    )
  return withBytes(`${user}:${password}`, bytes => bytes.toString('base64'))
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '"': '\\"' }

/**
 * Escapes a text as Go's template.JSEscape does, so that it can stand between the quotes of a
 * JavaScript string.
 */
function escapeJs(text: string): string {
  // Go does not escape DEL or the characters that it counts as printable.
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

/**
 * A placeholder. Its steps run in order. Each step passes its value to the next step as the last
 * argument.
 */
export interface Action {
  /** The steps, the first one first. A comment has no steps. */
  readonly steps: readonly Step[]
  /** Whether the white space before the placeholder is removed. */
  readonly trimBefore: boolean
  readonly trimAfter: boolean
  readonly end: number
}

/**
 * A step of a placeholder. It is either `.name` alone, or a function with the names of its
 * arguments.
 */
export interface Step {
  readonly run?: TemplateFunction
  readonly names: readonly string[]
}

/**
 * The highest number of steps after the first step. Without a limit, a short template could take a
 * long time to fill.
 */
const MAX_PIPES = 8

const opening = /\{\{(-[ \t\r\n])?/uy
const closing = /(?:([ \t\r\n]+-)|[ \t\r\n]*)\}\}/uy
const spaces = /[ \t\r\n]*/uy
const pipe = /[ \t\r\n]*\|[ \t\r\n]*/uy
const field = /\.((?![0-9])[_\p{L}\p{Nd}]+)/uy
const argument = /[ \t\r\n]+\.((?![0-9])[_\p{L}\p{Nd}]+)/uy
const word = /[a-zA-Z]+/uy
const commentStart = /\{\{(-[ \t\r\n])?\/\*/uy
const commentEnd = /\*\/([ \t\r\n]-)?\}\}/uy

/**
 * Reads the action whose two braces are at `start`. Returns undefined for any action that
 * `renderTemplate` does not support.
 */
export function readAction(template: string, start: number): Action | undefined {
  return readPipeline(template, start) ?? readComment(template, start)
}

/** Reads `{{.name}}` or `{{function .name .name}}`. Pipes such as `| function .name` may follow. */
function readPipeline(template: string, start: number): Action | undefined {
  let at = start
  /** Matches the pattern at the current position, and moves the position behind the match. */
  function take(pattern: RegExp): RegExpExecArray | undefined {
    const found = matchAt(pattern, template, at)
    at += found?.[0].length ?? 0
    return found ?? undefined
  }
  function readCall(): Step | undefined {
    const run = functions.get(take(word)?.[0] ?? '')
    if (run === undefined) return undefined
    const names: string[] = []
    for (let next = take(argument); next !== undefined; next = take(argument))
      names.push(next[1] as string)
    return { run, names }
  }

  const opened = take(opening)
  take(spaces)
  const [, name] = take(field) ?? []
  const steps: (Step | undefined)[] = [name === undefined ? readCall() : { names: [name] }]
  while (steps.length <= MAX_PIPES && steps.at(-1) !== undefined && take(pipe) !== undefined)
    steps.push(readCall())
  const closed = take(closing)
  if (closed === undefined || !steps.every(step => step !== undefined)) return undefined
  return {
    steps,
    trimBefore: opened?.[1] !== undefined,
    trimAfter: closed[1] !== undefined,
    end: at,
  }
}

function readComment(template: string, start: number): Action | undefined {
  const opened = matchAt(commentStart, template, start)
  if (opened === null) return undefined
  const close = template.indexOf('*/', start + opened[0].length)
  const closed = close === -1 ? null : matchAt(commentEnd, template, close)
  if (closed === null) return undefined
  return {
    steps: [],
    trimBefore: opened[1] !== undefined,
    trimAfter: closed[1] !== undefined,
    end: close + closed[0].length,
  }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}

/** Looks up the value of a name. Returns undefined if there is none. */
export type FindValue = (name: string) => string | undefined

/** The room that filled templates have. */
export interface Room {
  /** How many more bytes they may count for, in UTF-8. */
  left: number
  /** Whether a name is that of a secret, whose length nobody may find out. @default none is */
  readonly isSecret?: (name: string) => boolean
}

/**
 * A secret counts as a multiple of this many bytes, at least once. A vault stores at most 1022
 * bytes. So the caller learns nothing about the length of a secret by adding bytes of its own until
 * the request is too long.
 */
const SECRET_BYTES = 1024

/** A value while its placeholder is filled. */
interface Counted {
  readonly value: string
  /** Whether the value was made of a secret. */
  readonly isSecret: boolean
  /** How many bytes the value counts for. */
  readonly bytes: number
}

/**
 * Fills a template of Go's text/template in one pass. Placeholders inside values are not filled.
 * Supports `{{.name}}`, the functions of `functions`, pipes to these functions, comments, spaces
 * inside the braces and trim markers. Any other action is an error. A result that has no room is an
 * error, too. A placeholder with a secret takes as much room as it could ever need.
 */
export function renderTemplate(
  field: string,
  template: string,
  find: FindValue,
  room: Room = { left: Number.POSITIVE_INFINITY },
): string {
  const parts: string[] = []
  function tooLong(): EnclaveError {
    const rule = `${field}: with its placeholders filled, the request is too long`
    return new EnclaveError(rule, { code: 'LIMIT' })
  }
  function push(part: string, bytes: number = utf8Length(part)): void {
    room.left -= bytes
    if (room.left < 0) throw tooLong()
    parts.push(part)
  }
  function findValue(name: string): Counted {
    const value = find(name)
    if (value === undefined) throw noValue(field, name)
    const isSecret = room.isSecret?.(name) === true
    const bytes = utf8Length(value)
    const whole = Math.max(1, Math.ceil(bytes / SECRET_BYTES)) * SECRET_BYTES
    return { value, isSecret, bytes: isSecret ? whole : bytes }
  }
  function evaluate({ run, names }: Step, before: Counted | undefined): Counted {
    const values = [...names.map(findValue), ...(before === undefined ? [] : [before])]
    const sum = values.reduce((total, { bytes }) => total + bytes, 0)
    const isSecret = values.some(each => each.isSecret)
    const most = isSecret && run !== undefined ? sum * MAX_GROWTH + MAX_ADDED : sum
    // Functions only lengthen a text. So if the arguments are too long, the result is too long as
    // well.
    if (most > room.left) throw tooLong()
    const texts = values.map(({ value }) => value)
    const value = run === undefined ? (texts[0] ?? '') : run(field, texts)
    return { value, isSecret, bytes: isSecret ? most : utf8Length(value) }
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
    let value: Counted | undefined
    for (const step of action.steps) value = evaluate(step, value)
    if (value !== undefined) push(value.value, value.bytes)
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

/** Shortens a name or an action that an error quotes. */
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
