import type { LoggingConfig } from '../plugins/logging/index.js'

/** The public endpoints of the service, to spread into a configuration: `{ ...endpoints.mainnet, apiKey, userSecret }`. */
export const endpoints: {
  /** The real service. */
  readonly mainnet: {
    /** The URL of REST. */
    readonly endpoint: string
    /** The URL of streams. */
    readonly wsEndpoint: string
  }
  /** The service for tests. */
  readonly testnet: {
    /** The URL of REST. */
    readonly endpoint: string
    /** The URL of streams. */
    readonly wsEndpoint: string
  }
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
  /** The URL of REST: that of the testnet. */
  readonly endpoint: string
  /** The URL of streams: that of the testnet. */
  readonly wsEndpoint: string
  /** How often a request is tried again: 3. */
  readonly retryAttempts: number
  /** Milliseconds before the first new try of a request: 1000. */
  readonly retryDelay: number
  /** Milliseconds one attempt of a request may take: 30000. */
  readonly timeout: number
  /** One connection, not one per origin: false. */
  readonly haMode: boolean
  /** Milliseconds a connection may take to open in HA mode: 10000. */
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
