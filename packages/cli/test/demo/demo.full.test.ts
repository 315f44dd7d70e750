import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'

test('sluice demo --watch goes on until Ctrl-C, and still sums up', async () => {
  const { child, ended, shows } = startCommand(['demo', '--watch'])
  await shows(/V3 +\d{4}-/)
  child.kill('SIGINT')
  const { code, out } = await ended
  expect(out).toMatch(/lost {8}0/)
  expect(code).toBe(0)
})

test('sluice demo streams from the service that the environment names', async () => {
  await using engine = await startDataEngine({ intervalMs: 50, runAhead: true })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const env = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  const { code, out } = await startCommand(['demo', '--seconds', '1'], { env }).ended
  expect(out).toContain(`The service at ${endpoint}`)
  expect(out).toMatch(/delivered \d+, rejected 0/)
  expect(code).toBe(0)
})
