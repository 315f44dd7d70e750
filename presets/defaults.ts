import type { LoggingConfig } from '../plugins/logging.js'

/** The public endpoints of the service, to spread into a configuration: `{ ...endpoints.mainnet, apiKey, userSecret }`. */
export const endpoints: {
  readonly mainnet: { readonly endpoint: string; readonly wsEndpoint: string }
  readonly testnet: { readonly endpoint: string; readonly wsEndpoint: string }
} = Object.freeze({
  mainnet: Object.freeze({
    endpoint: 'https://api.dataengine.chain.link',
    wsEndpoint: 'wss://ws.dataengine.chain.link',
  }),
  testnet: Object.freeze({
    endpoint: 'https://api.testnet-dataengine.chain.link',
    wsEndpoint: 'wss://ws.testnet-dataengine.chain.link',
  }),
})

/** Milliseconds one attempt of a request may take, unless the configuration says otherwise. */
export const DEFAULT_TIMEOUT = 30_000
/** How often a request is tried again, unless the configuration says otherwise. */
export const DEFAULT_RETRY_ATTEMPTS = 3
/** Milliseconds before the first new try of a request, unless the configuration says otherwise. */
export const DEFAULT_RETRY_DELAY = 1000

/** The defaults of a client's configuration, and the testnet's endpoints; credentials are missing. */
export const DEFAULT_CONFIG: {
  readonly endpoint: string
  readonly wsEndpoint: string
  readonly retryAttempts: number
  readonly retryDelay: number
  readonly timeout: number
  readonly haMode: boolean
  readonly haConnectionTimeout: number
  /** Logs nothing. */
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
