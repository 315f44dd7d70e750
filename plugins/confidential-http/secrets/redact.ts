import type { Log, LogFunction } from '../../../core/log.js'
import type { HeaderLines } from '../call.js'
import { EnclaveError } from '../errors.js'
import { MAX_SEARCHED, SecretSearch } from './secret-search.js'

/** Replaces a whole text that holds a secret, because the rest of the text often gives hints about it. */
export const REDACTED = '[redacted]'

const MAX_DEPTH = 6

/** Properties of every error. Their names are not searched: a secret that is such a word would redact every error. */
const USUAL_NAMES: readonly PropertyKey[] = ['message', 'stack', 'cause', 'code', 'errors']
const STACK_FRAME = /^ {4}at .*(?::\d+:\d+|<anonymous>|native|index \d+)\)?$/gm

/** Removes secrets from errors, log lines and headers that leave the enclave. */
export interface Redactor {
  /** Returns what was thrown or, if that holds a secret, an error that says only so. */
  readonly error: (thrown: unknown) => unknown
  /** Returns a log that writes `[redacted]` in place of a line whose text or facts hold a secret. */
  readonly log: (log: Log) => Log
  /** Returns the headers with `[redacted]` in place of each value that holds a secret, and without names that do. */
  readonly headers: (headers: HeaderLines) => HeaderLines
  /** Zeroes the secrets; whatever is written to the log from then on is redacted. */
  readonly wipe: () => void
}

/** Prepares to redact these secrets. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const search = new SecretSearch(secrets)
  const holdsSecret = (text: string): boolean => search.isIn(text)

  function holdsSecretAnywhere(value: unknown): boolean {
    const texts: string[] = []
    collectTexts(value, { texts, seen: new Set(), left: MAX_SEARCHED + 1 }, 0)
    return holdsSecret(texts.join('\n'))
  }

  function error(thrown: unknown): unknown {
    return holdsSecretAnywhere(thrown)
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
            if (holdsSecretAnywhere([message, facts])) write(REDACTED)
            else write(message, facts)
          },
      ]),
    )
  }

  function headers(given: HeaderLines): HeaderLines {
    // Usually there is nothing to find, and one search shows it.
    if (!holdsSecret([...given].flatMap(([name, values]) => [name, ...values]).join('\n')))
      return given
    return new Map(
      [...given]
        .filter(([name]) => !holdsSecret(name))
        .map(([name, values]) => [
          name,
          values.map(value => (holdsSecret(value) ? REDACTED : value)),
        ]),
    )
  }
  return { error, log, headers, wipe: () => search.wipe() }
}

interface Collected {
  readonly texts: string[]
  readonly seen: Set<unknown>
  /** Characters left to collect. With more, the search gives up and treats the value as one that holds a secret. */
  left: number
}

/** Collects every text in a value, at any depth up to MAX_DEPTH. */
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
