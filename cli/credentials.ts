import { endpoints } from '../presets/defaults.js'

/** The service's URLs and the user's credentials. */
export interface Credentials {
  readonly apiKey: string
  readonly userSecret: string
  readonly endpoint: string
  readonly wsEndpoint: string
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads credentials from the environment, by all the names that the official documentation uses; undefined without any.
 * REST_URL and WS_URL are the URLs, by default those of the testnet.
 */
export function findCredentials(env: Environment): Credentials | undefined {
  const apiKey = env.API_KEY || env.STREAMS_API_KEY
  const userSecret = env.USER_SECRET || env.API_SECRET || env.STREAMS_API_SECRET
  if (!apiKey || !userSecret) return undefined
  const { endpoint, wsEndpoint } = endpoints.testnet
  return {
    apiKey,
    userSecret,
    endpoint: env.REST_URL || endpoint,
    wsEndpoint: env.WS_URL || wsEndpoint,
  }
}
