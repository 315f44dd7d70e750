import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as official from '@chainlink/data-streams-sdk'
import { describe, expect, test } from '@jest/globals'
import * as sluice from '../../index.js'
import { feed, reportOfWords } from '../support/report/decoding.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const good: official.Config = {
  apiKey: 'the-key',
  userSecret: 'the-secret',
  endpoint: 'http://127.0.0.1:1',
  wsEndpoint: 'ws://127.0.0.1:1',
}

type SDK = typeof official
const ours = sluice as unknown as SDK

/** What a function returns, or the name of the error that it throws. */
function outcome(act: () => unknown): unknown {
  try {
    return act()
  } catch (thrown) {
    return (thrown as Error).name
  }
}

/** What a program does with either SDK. */
function expectSame(act: (sdk: SDK) => unknown): unknown {
  const result = outcome(() => act(ours))
  expect(result).toEqual(outcome(() => act(official)))
  return result
}

/** Answers each request with `body`, and records its path. */
async function answering(body: unknown, paths: string[]): Promise<Server> {
  const server = createServer((request, response) => {
    paths.push(String(request.url))
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return server
}

const endpointOf = (server: Server): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`

describe('names and types', () => {
  test('every value that the official SDK exports is here, of the same kind', () => {
    for (const [name, value] of Object.entries(official))
      expect([name, typeof Reflect.get(sluice, name)]).toEqual([name, typeof value])
  })

  test('every method of its client is here, under its name', () => {
    const theirs = official.createClient(good)
    const client = sluice.createClient(good)
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(theirs))
    expect(methods).toContain('getLatestReport')
    for (const name of methods.filter(each => /^(get|list|createStream)/.test(each)))
      expect([name, typeof Reflect.get(client, name)]).toEqual([name, 'function'])
  })

  test('a feed of which the service sends the id alone is delivered as it is', async () => {
    const server = await answering({ feeds: [{ feedID: ethUsd }] }, [])
    const config = { ...good, endpoint: endpointOf(server) }
    const feeds = await ours.createClient(config).listFeeds()
    expect(feeds).toEqual(await official.createClient(config).listFeeds())
    expect(feeds).toEqual([{ feedID: ethUsd }])
    // The type says that the others may be missing.
    const [known] = (await sluice.createClient(config).listFeeds()) as sluice.Feed[]
    const name: string | undefined = known?.name
    expect(name).toBeUndefined()
    server.close()
  })
})

describe('a feed id whose prefix is 0X', () => {
  const upper = ethUsd.replace('0x', '0X')
  const words = [7n, 6n, 8n]

  test('is taken where the official SDK takes it', () => {
    expect(expectSame(sdk => sdk.getReportVersion(upper))).toBe('V3')
    const fullReport = reportOfWords(feed(3), words)
    const price = expectSame(
      sdk => (sdk.decodeReport(fullReport, feed(3).replace('0x', '0X')) as { price: bigint }).price,
    )
    expect(price).toBe(7n)
  })

  test('is refused where the official SDK refuses it', () => {
    expect(expectSame(sdk => sdk.createClient(good).createStream(upper))).toBe('ValidationError')
  })
})

describe('the time 0', () => {
  test('is asked for as any other', async () => {
    const paths: string[] = []
    const server = await answering({ reports: [] }, paths)
    const config = { ...good, endpoint: endpointOf(server) }
    for (const sdk of [official, ours]) {
      const client = sdk.createClient(config)
      expect([...(await client.getReportsPage(ethUsd, 0, 3))]).toEqual([])
      expect([...(await client.getReportsBulk([ethUsd], 0))]).toEqual([])
    }
    expect(paths.slice(2)).toEqual(paths.slice(0, 2))
    expect(paths[0]).toContain('startTimestamp=0&limit=3')
    server.close()
  })

  test('signs as 0, and not as the present', async () => {
    const headers = sluice.generateAuthHeaders('k', 's', 'GET', 'https://a.example/', '', 0)
    expect(headers['X-Authorization-Timestamp']).toBe('0')
  })
})

describe('fields of 64 bits', () => {
  const nanoseconds = 1_753_900_000_123_456_789n

  test('are the numbers of the official SDK, with the exact value beside them', () => {
    const v12 = reportOfWords(feed(12), [1n, 2n, nanoseconds, 0n])
    const date = expectSame(
      sdk => (sdk.decodeReport(v12, feed(12)) as official.DecodedV12Report).navDate,
    )
    expect(typeof date).toBe('number')
    expect(sluice.decodeReport(v12, feed(12))).toMatchObject({ navDateRaw: nanoseconds })

    const v13 = reportOfWords(feed(13), [9n, 8n, 2n ** 53n + 1n, 400n, 5n])
    const volumes = expectSame(sdk => {
      const { askVolume, bidVolume } = sdk.decodeReport(v13, feed(13)) as official.DecodedV13Report
      return [askVolume, bidVolume]
    })
    expect(volumes).toEqual([2 ** 53, 400])
    expect(sluice.decodeReport(v13, feed(13))).toMatchObject({
      askVolumeRaw: 2n ** 53n + 1n,
      bidVolumeRaw: 400n,
    })
  })
})

describe('an API key of two words', () => {
  test('is sent as it is by the official SDK, in requests and upgrades: so it signs in to a gateway', async () => {
    const sent: (string | undefined)[] = []
    const server = await answering({ feeds: [] }, [])
    server.on('request', request => void sent.push(request.headers.authorization))
    server.on('upgrade', (request, socket) => {
      sent.push(request.headers.authorization)
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
    })
    const endpoint = endpointOf(server)
    const config = { apiKey: 'Bearer the-token', userSecret: 'unused', endpoint }
    const client = official.createClient({
      ...config,
      wsEndpoint: endpoint.replace('http', 'ws'),
    })
    await client.listFeeds()
    const stream = client.createStream(ethUsd, { maxReconnectAttempts: 1 })
    stream.on('error', () => undefined)
    await expect(stream.connect()).rejects.toThrow()
    await stream.close()
    expect(sent).toEqual(['Bearer the-token', 'Bearer the-token'])
    server.close()
  })
})

describe('errors made by hand', () => {
  const cause = Object.assign(new Error('no route'), { code: 'ENETUNREACH' })

  test('have the facts that the official constructors take', () => {
    expect(expectSame(sdk => new sdk.APIError('m', 503).statusCode)).toBe(503)
    expect(expectSame(sdk => new sdk.APIError('m').statusCode)).toBeUndefined()
    expect(expectSame(sdk => new sdk.OriginDiscoveryError('m', cause).cause)).toBe(cause)
    const partial = expectSame(sdk => {
      const error = new sdk.PartialConnectionFailureError('m', 1, 3)
      return [error.failedConnections, error.totalConnections]
    })
    expect(partial).toEqual([1, 3])
    const few = expectSame(sdk => {
      const error = new sdk.InsufficientConnectionsError('m', 0, 2)
      return [error.availableConnections, error.requiredConnections]
    })
    expect(few).toEqual([0, 2])
  })

  test('have a code, and know whether another try may help', () => {
    expect(new sluice.APIError('m', 503)).toMatchObject({ code: 'API_STATUS', isRetryable: true })
    expect(new sluice.APIError('m', 404)).toMatchObject({ isRetryable: false })
    // The code of the cause is not the code of the error.
    expect(new sluice.OriginDiscoveryError('m', cause).code).toBe('ORIGIN_DISCOVERY')
    const counts = { failedConnections: 1, totalConnections: 3, cause }
    expect(new sluice.PartialConnectionFailureError('m', counts)).toMatchObject(counts)
  })
})

describe('what the official types know and a stream has no use for', () => {
  function warned(): { warnings: string[]; config: official.Config } {
    const warnings: string[] = []
    const warn = (line: string): void => void warnings.push(line)
    return { warnings, config: { ...good, logging: { logger: { warn } } } }
  }

  test('events of its emitter are taken, with one warning each', () => {
    const { warnings, config } = warned()
    const stream = ours.createClient(config).createStream(ethUsd)
    for (let times = 0; times < 3; times++) {
      stream.on('newListener', () => undefined)
      stream.on('removeListener', () => undefined)
    }
    expect(warnings).toEqual([
      expect.stringContaining('newListener'),
      expect.stringContaining('removeListener'),
    ])
  })

  test('options of its streams in a configuration are taken, with one warning', () => {
    const { warnings, config } = warned()
    const client = ours.createClient({ ...config, maxReconnectAttempts: 4 } as official.Config)
    client.createStream(ethUsd)
    client.createStream(ethUsd)
    expect(warnings).toEqual([expect.stringContaining('maxReconnectAttempts')])
  })

  test('an option that neither knows is taken, with one warning', () => {
    const { warnings, config } = warned()
    ours.createClient({ ...config, userId: 'me', retries: 4 } as official.Config)
    expect(warnings).toEqual([expect.stringContaining('userId, retries')])
  })

  test('a misspelt option, and an event that neither knows, are errors', () => {
    const misspelt = { ...good, retryAttemps: 4 } as official.Config
    expect(outcome(() => ours.createClient(misspelt))).toBe('ValidationError')
    const stream = ours.createClient(good).createStream(ethUsd)
    expect(outcome(() => stream.on('reports', () => undefined))).toBe('ValidationError')
  })
})
