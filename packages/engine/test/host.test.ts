import { expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import { startDataEngine } from '../index.js'

/** Linux has all of 127.0.0.0/8. */
const OTHER = '127.0.0.2'
const onLinux = process.platform === 'linux' ? test : test.skip

onLinux.each([1, 2])(
  'an engine of %i origins listens on all addresses where it is to',
  async origins => {
    await using engine = await startDataEngine({ origins, host: '0.0.0.0' })
    expect(engine.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const [endpoint, wsEndpoint] = [engine.endpoint, engine.wsEndpoint].map(url =>
      url.replace('127.0.0.1', OTHER),
    ) as [string, string]
    const { apiKey, userSecret, feeds } = engine
    const haMode = origins > 1
    await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode })
    expect(await client.listFeeds()).toHaveLength(feeds.length)
    const stream = client.createStream(feeds[0] as string)
    expect((await stream.read()).origin).toMatch(wsEndpoint)
  },
)

onLinux(
  'it listens on loopback alone otherwise, and on another address where that is given',
  async () => {
    await using usual = await startDataEngine()
    const url = usual.endpoint.replace('127.0.0.1', OTHER)
    expect((await failureOf(fetch(url))).cause).toMatchObject({ code: 'ECONNREFUSED' })
    await using other = await startDataEngine({ host: OTHER })
    expect(other.endpoint).toMatch(`http://${OTHER}:`)
    expect((await fetch(other.endpoint)).status).toBe(405)
  },
)

test('a host must be an address', async () => {
  const { message } = await failureOf(startDataEngine({ host: 'localhost' }))
  expect(message).toBe('host must be an IP address, as 0.0.0.0')
})
