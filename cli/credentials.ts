import { endpoints } from '../presets/defaults.js'

/** Where to connect, and as whom. */
export interface Credentials {
  readonly apiKey: string
  readonly userSecret: string
  readonly endpoint: string
  readonly wsEndpoint: string
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Credentials from the environment, under any of the names the official material uses; undefined where there are none.
 * REST_URL and WS_URL say where; without them it is the testnet.
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
