import type { IncomingMessage } from 'node:http'
import { ValidationError } from 'sluice/core'
import { HTTPError } from 'sluice/internal'

type Headers = Readonly<Record<string, string>>

/** The origins whose pages may ask. */
export interface Origins {
  /** Throws HTTPError for a page of another origin. What is no page names none, and may ask. */
  check(request: IncomingMessage): void
  /** What lets a page of an origin read the answer (CORS). */
  headersFor(request: IncomingMessage): Headers
}

/** Seconds for which a browser remembers that it may ask. */
const MAX_AGE = 600

/** Checks a list of origins, such as `https://app.example`; `*` stands for every one. */
export function createOrigins(given: readonly string[]): Origins {
  if (!Array.isArray(given)) throw new ValidationError('origins must be a list of origins')
  const allowed = new Set(given.map((origin, at) => checkOrigin(`origins[${at}]`, origin)))
  const isAllowed = (origin: string): boolean => allowed.has('*') || allowed.has(origin)
  return {
    check({ headers: { origin } }) {
      if (origin !== undefined && !isAllowed(origin))
        throw new HTTPError(403, 'pages of this origin are not allowed')
    },
    headersFor({ headers: { origin } }) {
      if (origin === undefined || !isAllowed(origin)) return { vary: 'origin' }
      return {
        vary: 'origin',
        'access-control-allow-origin': origin,
        'access-control-allow-headers': 'authorization, user-agent',
        'access-control-expose-headers': 'retry-after',
        'access-control-max-age': String(MAX_AGE),
      }
    },
  }
}

function checkOrigin(field: string, value: unknown): string {
  if (value === '*') return value
  const isOrigin =
    typeof value === 'string' && URL.canParse(value) && new URL(value).origin === value
  if (!isOrigin)
    throw new ValidationError(`${field} must be an origin such as https://app.example, or *`)
  return value
}
