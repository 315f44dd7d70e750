/** Milliseconds one attempt of a request may take, unless the configuration says otherwise. */
export const DEFAULT_TIMEOUT = 30_000
/** How often a request is tried again, unless the configuration says otherwise. */
export const DEFAULT_RETRY_ATTEMPTS = 3
/** Milliseconds before the first new try of a request, unless the configuration says otherwise. */
export const DEFAULT_RETRY_DELAY = 1000

/** The time now, in Unix seconds. */
export function getCurrentTimestamp(): number {
  return Math.floor(Date.now() / 1000)
}
