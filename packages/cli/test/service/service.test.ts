import { expect, test } from '@jest/globals'
import { endpoints } from 'sluice'
import type { IO } from '../../io.js'
import { findService, type ServiceOptions } from '../../service/service.js'

const local = { REST_URL: 'http://127.0.0.1:8080', WS_URL: 'ws://127.0.0.1:8080' }
const find = (options: ServiceOptions, env: Record<string, string> = {}) => {
  const { endpoint, wsEndpoint, network, credentials } = findService(options, {
    env,
  } as unknown as IO)
  return { endpoint, wsEndpoint, network, credentials }
}

test.each<[string, ServiceOptions, Record<string, string>, object]>([
  ['the testnet', {}, {}, { ...endpoints.testnet, network: 'testnet' }],
  ['the mainnet', { mainnet: true }, local, { ...endpoints.mainnet, network: 'mainnet' }],
  ['the testnet by name', { testnet: true }, local, { ...endpoints.testnet, network: 'testnet' }],
  [
    'that of the environment',
    {},
    local,
    { endpoint: local.REST_URL, wsEndpoint: local.WS_URL, network: undefined },
  ],
  [
    'that of options',
    { endpoint: 'http://a', wsEndpoint: 'ws://b' },
    local,
    { endpoint: 'http://a', wsEndpoint: 'ws://b', network: undefined },
  ],
])('%s is asked', (_name, options, env, expected) => {
  expect(find(options, env)).toEqual({ ...expected, credentials: undefined })
})

test.each([
  [{ API_KEY: 'a', USER_SECRET: 'b' }],
  [{ STREAMS_API_KEY: 'a', STREAMS_API_SECRET: 'b' }],
  [{ API_KEY: 'a', API_SECRET: 'b' }],
])('credentials have the names of the documentation: %j', env => {
  expect(find({}, env as Record<string, string>).credentials).toEqual({
    apiKey: 'a',
    userSecret: 'b',
  })
})
