import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { type BearerAuthOptions, bearerAuth, createClient, retry } from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { failureOf } from '../support/waiting.js'

const closers = closeAfterEach()

/** A server that records what authorizes requests and upgrades, and answers with these statuses, the last one from then on. */
async function startServer(...statuses: number[]) {
  const seen: (string | undefined)[] = []
  const next = (): number => (statuses.length > 1 ? statuses.shift() : statuses[0]) ?? 200
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.writeHead(next()).end('{"feeds":[]}')
  })
  server.on('upgrade', (request, socket) => {
    seen.push(request.headers.authorization)
    socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => server.close())
  const { port } = server.address() as AddressInfo
  return { seen, port }
}

function clientOf(port: number, { token }: BearerAuthOptions) {
  const client = createClient({
    endpoint: `http://127.0.0.1:${port}`,
    wsEndpoint: `ws://127.0.0.1:${port}`,
    plugins: [retry({ delay: 1 }), bearerAuth({ token })],
  })
  closers.push(() => client.close())
  return client
}

describe('bearerAuth', () => {
  test('sends the token with requests and upgrades', async () => {
    const { seen, port } = await startServer()
    const client = clientOf(port, { token: 'abc.d-e_f~g+h/i=' })
    await client.listFeeds()
    const error = await failureOf(client.createStream(`0x0003${'1'.repeat(60)}`).connect())
    expect(error).toMatchObject({ code: 'AUTHENTICATION', statusCode: 401 })
    expect(seen).toEqual(Array(2).fill('Bearer abc.d-e_f~g+h/i='))
  })

  test('asks for a token before each attempt', async () => {
    const { seen, port } = await startServer(503, 200)
    let count = 0
    await clientOf(port, { token: async () => `token-${++count}` }).listFeeds()
    expect(seen).toEqual(['Bearer token-1', 'Bearer token-2'])
  })

  test('rejects what is no token, and does not show it', async () => {
    const { seen, port } = await startServer()
    for (const token of ['', 'a b', 'a\r\nb: c', 'é', 'x'.repeat(4097), undefined, 5]) {
      expect(() => bearerAuth({ token: token as string })).toThrow(/^token must be 1 to 4096/)
      const error = await failureOf(clientOf(port, { token: () => token as string }).listFeeds())
      expect(error.message).toMatch(/token must be 1 to 4096/)
    }
    expect(seen).toEqual([])
  })

  test('passes on what the function throws', async () => {
    const { port } = await startServer()
    const token = () => Promise.reject(new Error('signed out'))
    const error = await failureOf(clientOf(port, { token }).listFeeds())
    expect(error.message).toContain('signed out')
  })
})
