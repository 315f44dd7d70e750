import { expect, test } from '@jest/globals'
import { createClient } from '../../index.js'

const warningsOf = async (endpoint: string, wsEndpoint: string): Promise<readonly string[]> => {
  const warnings: string[] = []
  const logger = { warn: (line: string) => void warnings.push(line) }
  const keys = { apiKey: 'key', userSecret: 'secret' }
  await createClient({ ...keys, endpoint, wsEndpoint, logging: { logger } }).close()
  return warnings
}

test.each([
  ['http://api.example', 'wss://ws.example', 'api.example'],
  ['https://api.example', 'ws://ws.example:8080', 'ws.example:8080'],
  ['http://10.0.0.5', 'ws://10.0.0.5', '10.0.0.5'],
  ['http://127.0.0.1.example', 'ws://localhost.example', '127.0.0.1.example, localhost.example'],
])('%s with %s warns once that it is not encrypted', async (endpoint, wsEndpoint, hosts) => {
  expect(await warningsOf(endpoint, wsEndpoint)).toEqual([
    expect.stringContaining(`the connections to ${hosts} are not encrypted`),
  ])
})

test.each([
  ['https://api.example', 'wss://ws.example'],
  ['http://localhost:1', 'ws://127.0.0.1:1'],
  ['http://[::1]:1', 'ws://engine.localhost:1'],
])('%s with %s warns of nothing', async (endpoint, wsEndpoint) => {
  expect(await warningsOf(endpoint, wsEndpoint)).toEqual([])
})
