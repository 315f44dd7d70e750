/**
 * The public endpoints of the service: spread them, `{ ...endpoints.mainnet, apiKey, userSecret }`.
 */
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

/** The default of `timeout`, in milliseconds. */
export const DEFAULT_TIMEOUT = 30_000
/** The default of `retryAttempts`. */
export const DEFAULT_RETRY_ATTEMPTS = 3
/** The default of `retryDelay`, in milliseconds. */
export const DEFAULT_RETRY_DELAY = 1000
/** The default of `haConnectionTimeout`, in milliseconds. */
export const DEFAULT_HA_CONNECTION_TIMEOUT = 10_000
