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
/** Milliseconds a connection of high availability may take to open, unless the configuration says otherwise. */
export const DEFAULT_HA_CONNECTION_TIMEOUT = 10_000
