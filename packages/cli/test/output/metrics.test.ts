import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { runHere, start } from '../support/cli.js'

let engine: DataEngine
let env: Record<string, string>
const feedID = `0x1003${'1'.padStart(60, '0')}`
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [feedID], intervalMs: 20 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  env = { REST_URL: endpoint, WS_URL: wsEndpoint, API_KEY: apiKey, USER_SECRET: userSecret }
})
afterAll(() => engine.close())

const whereIn = (err: string): string => /at (http:\S+)\/metrics\n/.exec(err)?.[1] ?? ''

test('serves the metrics of a stream, and whether it is connected', async () => {
  const { output, ended, stop } = start(['stream', feedID, '--metrics', '0', '--json'], { env })
  await until(() => output.out.split('\n').length > 5)
  const url = whereIn(output.err)
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  const page = await fetch(`${url}/metrics`)
  expect(page.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const text = await page.text()
  const count = /^sluice_reports_accepted_total\{sluice_report_source="live"\} (\d+)$/m.exec(text)
  expect(Number(count?.[1])).toBeGreaterThan(4)
  expect(text).toMatch(/^process_cpu_seconds_total \d/m)
  expect(text).not.toContain(env.USER_SECRET)

  const health = async (): Promise<number> => (await fetch(`${url}/health`)).status
  expect(await health()).toBe(200)
  await engine.stop()
  let status = 200
  await until(() => {
    void health().then(found => {
      status = found
    })
    return status === 503
  })
  await engine.start()
  expect((await fetch(`${url}/elsewhere`)).status).toBe(404)
  expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405)
  stop()
  expect((await ended).code).toBe(0)
  await expect(fetch(`${url}/health`)).rejects.toThrow()
})

test.each([
  ['nonsense', /--metrics.*must be a port, or a host and a port/],
  ['70000', /--metrics.*must be a port/],
  [
    '203.0.113.1:9464',
    /^sluice: --metrics: port 9464 of 203\.0\.113\.1 can’t be listened on: this machine has no such address/,
  ],
])('%s: ends with 2', async (place, message) => {
  const { code, err } = await runHere(['stream', feedID, '--metrics', place], { env })
  expect(err).toMatch(message)
  expect(code).toBe(2)
})
