import type { Log, LogFunction } from '../../../core/log.js'
import { TextDecoder } from '../../../core/platform.js'
import type { HeaderLines } from '../call.js'
import { EnclaveError } from '../errors.js'
import { createSecretSearch, MAX_SEARCHED } from './secret-search.js'

/** What stands in place of a text that holds a secret: all of it, since what is around a secret often tells of it. */
export const REDACTED = '[redacted]'

const MAX_DEPTH = 6

/** What every error has: no secret is looked for in these words, or one that is such a word would hide them all. */
const USUAL_NAMES: readonly PropertyKey[] = ['message', 'stack', 'cause', 'code', 'errors']
const STACK_FRAME = /^ {4}at .*(?::\d+:\d+|<anonymous>|native|index \d+)\)?$/gm

/** Keeps secrets out of what leaves the place where they are known. */
export interface Redactor {
  /** The text, or `[redacted]` in its place. */
  readonly text: (text: string) => string
  /** What was thrown, or in its place an error that says no more than that it holds a secret. */
  readonly error: (thrown: unknown) => unknown
  /** A log that writes `[redacted]` in place of a line, or facts of it, that hold a secret. */
  readonly log: (log: Log) => Log
  /** The headers, with `[redacted]` in place of each value that holds a secret, and without names that do. */
  readonly headers: (headers: HeaderLines) => HeaderLines
}

/** Prepares to redact these secrets. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const isIn = createSecretSearch(secrets)

  function text(given: string): string {
    return isIn(given) ? REDACTED : given
  }

  /** True where it has a secret anywhere in it. */
  function isWithin(value: unknown): boolean {
    const texts: string[] = []
    collectTexts(value, { texts, seen: new Set(), left: MAX_SEARCHED + 1 }, 0)
    return isIn(texts.join('\n'))
  }

  function error(thrown: unknown): unknown {
    return isWithin(thrown)
      ? new EnclaveError('the request failed inside the enclave, and the reason repeats a secret')
      : thrown
  }

  function log(given: Log): Log {
    const entries = Object.entries(given) as [keyof Log, LogFunction | undefined][]
    return Object.fromEntries(
      entries.map(([level, write]) => [
        level,
        write &&
          function redacted(message: string, facts?: Readonly<Record<string, unknown>>): void {
            if (isWithin([message, facts])) write(REDACTED)
            else write(message, facts)
          },
      ]),
    )
  }

  function headers(given: HeaderLines): HeaderLines {
    // One search is enough as a rule, where there is nothing to be found.
    if (!isIn([...given].flatMap(([name, values]) => [name, ...values]).join('\n'))) return given
    const kept = [...given].filter(([name]) => !isIn(name))
    return new Map(kept.map(([name, values]) => [name, values.map(text)]))
  }
  return { text, error, log, headers }
}

interface Collected {
  readonly texts: string[]
  readonly seen: Set<unknown>
  /** How many characters more are worth collecting: beyond them the search gives up, and all is taken for a secret. */
  left: number
}

/** Collects every text in a value, and in what it holds. */
function collectTexts(value: unknown, collected: Collected, depth: number): void {
  const { texts, seen } = collected
  if (collected.left < 0) return
  if (typeof value === 'string') {
    collected.left -= value.length + 1
    texts.push(value)
    return
  }
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!isObject || depth > MAX_DEPTH || seen.has(value)) return
  seen.add(value)
  if (ArrayBuffer.isView(value)) {
    collectTexts(new TextDecoder().decode(value as Uint8Array), collected, depth)
    return
  }
  if (value instanceof Map || value instanceof Set) {
    for (const each of value) collectTexts(each, collected, depth + 1)
    return
  }
  for (const name of Reflect.ownKeys(value)) {
    if (!USUAL_NAMES.includes(name)) collectTexts(String(name), collected, depth + 1)
    const held = read(value, name)
    const isStack = name === 'stack' && typeof held === 'string'
    collectTexts(isStack ? held.replace(STACK_FRAME, '') : held, collected, depth + 1)
  }
}

function read(holder: object, name: PropertyKey): unknown {
  try {
    return Reflect.get(holder, name)
  } catch {
    return undefined
  }
}
