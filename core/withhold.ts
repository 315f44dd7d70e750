import { EnclaveError } from './errors.js'

/** Shorter ones stand in many a text by chance. */
const MIN_RECOGNISABLE = 4
const MAX_DEPTH = 6

/** What was thrown; where it repeats one of these secrets anywhere, an error that says no more than that. */
export function withhold(thrown: unknown, secrets: Iterable<string>): unknown {
  const recognisable = [...secrets].filter(secret => secret.length >= MIN_RECOGNISABLE)
  const forms = new Set(recognisable.flatMap(formsOf))
  if (forms.size === 0) return thrown
  const texts = textsOf(thrown, new Set(), 0)
  return texts.some(text => [...forms].some(form => text.includes(form)))
    ? new EnclaveError('the request failed inside the enclave, and the reason repeats a secret')
    : thrown
}

/** How a secret stands in text, in JSON and in a URL. */
function formsOf(secret: string): readonly string[] {
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]
}

/** Every text in a value, and in what it holds. */
function textsOf(value: unknown, seen: Set<unknown>, depth: number): readonly string[] {
  if (typeof value === 'string') return [value]
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!isObject || depth > MAX_DEPTH || seen.has(value)) return []
  seen.add(value)
  if (ArrayBuffer.isView(value)) return [new TextDecoder().decode(value as Uint8Array)]
  if (value instanceof Map || value instanceof Set)
    return [...value].flatMap(each => textsOf(each, seen, depth + 1))
  return Reflect.ownKeys(value).flatMap(name => [
    String(name),
    ...textsOf(read(value, name), seen, depth + 1),
  ])
}

function read(holder: object, name: PropertyKey): unknown {
  try {
    return Reflect.get(holder, name)
  } catch {
    return undefined
  }
}
