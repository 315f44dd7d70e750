import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient } from '../../index.js'
import { failureOf } from '../support/waiting.js'

const apiKey = '00000000-0000-4000-8000-000000000001'

describe('a hostile server', () => {
  let server: Server
  let reply: Parameters<typeof createServer>[1]
  beforeAll(async () => {
    server = createServer((request, response) =>
      (reply as (...both: unknown[]) => void)(request, response),
    )
    server.maxRequestsPerSocket = 1
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const hostile = (config: object = {}) =>
    createClient({
      apiKey,
      userSecret: 'a-secret-of-the-user',
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      wsEndpoint: 'ws://127.0.0.1:9',
      retryAttempts: 0,
      ...config,
    })

  test('a body without end is cut off', async () => {
    reply = (_request, response) => {
      const chunk = Buffer.alloc(1_048_576, 'x')
      const write = (): void => {
        if (!response.destroyed) response.write(chunk, () => setImmediate(write))
      }
      write()
    }
    const error = await failureOf(hostile().listFeeds())
    expect(error).toMatchObject({ code: 'API_RESPONSE' })
    expect(error.message).toMatch(/longer than 33554432 bytes/)
  })

  test('an error body that echoes the credentials is left out', async () => {
    reply = (request, response) => {
      response.statusCode = 400
      response.end(
        JSON.stringify({
          message: `bad: ${JSON.stringify(request.headers)}\u0000\n${'z'.repeat(5000)}`,
        }),
      )
    }
    const error = await failureOf(hostile().listFeeds())
    expect(error.message).toContain('repeats what was sent')
    expect(error.message).not.toContain(apiKey)
    expect(error.message).not.toMatch(/[0-9a-f]{64}/)
    expect(error.message.length).toBeLessThan(500)
  })

  test('a redirect is refused, so that no signature follows it', async () => {
    const seen: unknown[] = []
    reply = (request, response) => {
      seen.push(request.url)
      response.writeHead(302, { location: '/elsewhere' }).end()
    }
    expect(await failureOf(hostile().listFeeds())).toMatchObject({ statusCode: 302 })
    expect(seen).toEqual(['/api/v1/feeds'])
  })

  test('a base path and a trailing slash are kept in order', async () => {
    const seen: unknown[] = []
    reply = (request, response) => {
      seen.push(request.url)
      response.end('{"feeds":[]}')
    }
    await hostile().listFeeds()
    await hostile({
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/proxy/`,
    }).listFeeds()
    expect(seen).toEqual(['/api/v1/feeds', '/proxy/api/v1/feeds'])
  })

  test('a connection reset half way is a network error', async () => {
    reply = (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('{"feeds"')
      setTimeout(() => response.destroy(), 10)
    }
    expect(await failureOf(hostile().listFeeds())).toMatchObject({ code: 'API_NETWORK' })
  })
})
