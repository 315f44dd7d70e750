import {
  type ConfidentialHTTPRequestJson,
  createLocalRuntime,
  createRemoteRuntime,
  type HTTPRequestJson,
  type LocalRuntimeOptions,
  type RemoteRuntimeOptions,
  type Runtime,
} from '../../index.js'
import { faultyStack, type World } from './world.js'

/** A request for a path of the world's external server, with the secret apiKey in a header and in the body. */
export function inputOf(
  { url, ca }: Pick<World, 'url' | 'ca'>,
  path: string,
  timeout = '90s',
  request: HTTPRequestJson = {},
): ConfidentialHTTPRequestJson {
  return {
    vaultDonSecrets: [{ key: 'apiKey' }],
    request: {
      url: `${url}${path}`,
      method: 'POST',
      bodyString: 'key={{.apiKey}}',
      multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
      customRootCaCertPem: btoa(ca),
      timeout,
      ...request,
    },
  }
}

/** A request that needs no secret, and so no time worth speaking of. */
export function plainInputOf(
  { url, ca }: Pick<World, 'url' | 'ca'>,
  path: string,
  timeout: string,
): ConfidentialHTTPRequestJson {
  return {
    request: { url: `${url}${path}`, method: 'GET', customRootCaCertPem: btoa(ca), timeout },
  }
}

export function localRuntime(world: World, options: Partial<LocalRuntimeOptions> = {}): Runtime {
  // Where a request is to succeed, a slow machine must not make it fail.
  const limits = { maxTimeout: 90_000, defaultTimeout: 90_000 }
  return createLocalRuntime({ vault: world.vault, stack: faultyStack, limits, ...options })
}

export function remoteRuntime(world: World, options: Partial<RemoteRuntimeOptions> = {}): Runtime {
  return createRemoteRuntime({
    url: world.enclaveURL,
    enclavePublicKey: world.enclavePublicKey,
    callerSecretKey: world.callerSecretKey,
    defaultTimeout: 90_000,
    ...options,
  })
}

/** Returns the error that a call throws, and how long the call took. */
export function failing(work: () => unknown): {
  readonly error: Error & { readonly code?: string }
  readonly ms: number
} {
  const begin = performance.now()
  try {
    work()
  } catch (error) {
    return { error: error as Error, ms: performance.now() - begin }
  }
  throw new Error('nothing was thrown')
}
