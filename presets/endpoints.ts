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
