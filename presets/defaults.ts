import type { LoggingConfig } from '../plugins/logging.js'
import { endpoints } from './endpoints.js'

/** Milliseconds one attempt of a request may take, unless the configuration says otherwise. */
export const DEFAULT_TIMEOUT = 30_000
/** How often a request is tried again, unless the configuration says otherwise. */
export const DEFAULT_RETRY_ATTEMPTS = 3
/** Milliseconds before the first new try of a request, unless the configuration says otherwise. */
export const DEFAULT_RETRY_DELAY = 1000

/** What a client goes by unless its configuration says otherwise; it is that of the testnet, without credentials. */
export const DEFAULT_CONFIG: {
  readonly endpoint: string
  readonly wsEndpoint: string
  readonly retryAttempts: number
  readonly retryDelay: number
  readonly timeout: number
  readonly haMode: boolean
  readonly haConnectionTimeout: number
  /** Silent. */
  readonly logging?: LoggingConfig
} = Object.freeze({
  ...endpoints.testnet,
  retryAttempts: DEFAULT_RETRY_ATTEMPTS,
  retryDelay: DEFAULT_RETRY_DELAY,
  timeout: DEFAULT_TIMEOUT,
  haMode: false,
  haConnectionTimeout: 10_000,
})

/** The time now, in Unix seconds. */
export function getCurrentTimestamp(): number {
  return Math.floor(Date.now() / 1000)
}
