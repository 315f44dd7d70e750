// Answers of something that is not the service: a CDN, a proxy, the login page of a network.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterEach, describe, expect, test } from '@jest/globals'
import { WebSocketServer } from 'ws'
import { createClient, type StreamOptions } from '../../index.js'
import { failureOf, until } from '../support/waiting.js'

const feed = `0x0003${'5'.repeat(60)}`
const closers: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

interface Given {
  readonly status: number
  readonly type?: string
  readonly server?: string
  readonly more?: Record<string, string>
  readonly body: string
}

/** A place that answers as it is told; undefined stands for the service itself. */
async function startPlace(answers: (Given | undefined)[]) {
  const calls: string[] = []
  const next = (url = ''): Given | undefined => {
    calls.push(url)
    return answers.length > 1 ? answers.shift() : answers[0]
  }
  const headersOf = ({ type = 'text/html', server = 'cloudflare', more }: Given) => ({
    'content-type': type,
    server,
    ...more,
  })
  const sockets = new WebSocketServer({ noServer: true })
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const given = request.method === 'HEAD' ? undefined : next(request.url)
    if (given === undefined) response.end('{"feeds":[]}')
    else response.writeHead(given.status, headersOf(given)).end(given.body)
  })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const given = next(request.url)
    if (given === undefined) return sockets.handleUpgrade(request, socket, head, () => undefined)
    const lines = Object.entries(headersOf(given)).map(([name, value]) => `${name}: ${value}\r\n`)
    const length = `content-length: ${Buffer.byteLength(given.body)}\r\n`
    socket.end(`HTTP/1.1 ${given.status} No\r\n${lines.join('')}${length}\r\n${given.body}`)
    return undefined
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = createClient({
    ...{ apiKey: 'a-key', userSecret: 'a-secret', retryDelay: 1, rateLimit: { requests: 1000 } },
    ...{ endpoint: `http://127.0.0.1:${port}`, wsEndpoint: `ws://127.0.0.1:${port}` },
  })
  closers.push(
    () => client.close(),
    () => {
      for (const socket of sockets.clients) socket.terminate()
      server.closeAllConnections()
      server.close()
    },
  )
  const open = (options: StreamOptions) => {
    const stream = client.createStream(feed, { reconnectInterval: 1, ...options })
    const errors: Error[] = []
    stream.on('error', error => void errors.push(error))
    return { stream, errors }
  }
  const lose = (): void => {
    for (const socket of sockets.clients) socket.terminate()
  }
  return { client, calls, open, lose, sockets }
}

const page = '<!doctype html><html><head><title>Just a moment…</title></head><body>x</body></html>'
const foreign: readonly (readonly [string, Given, string])[] = [
  ['the page of a CDN', { status: 403, body: page }, 'It says: Just a moment'],
  [
    'the line of a CDN',
    { status: 403, type: 'text/plain; charset=UTF-8', body: 'error code: 1010\nray 12' },
    'It says: error code: 1010',
  ],
  [
    'the login page of a hotel',
    { status: 401, server: 'nginx', body: '<p>Please log in to <b>HotelNet</b></p>' },
    'It says: Please log in to HotelNet',
  ],
  [
    'a proxy that wants a login',
    { status: 401, type: 'text/plain', body: '', more: { 'www-authenticate': 'Basic realm="x"' } },
    'something in front of it',
  ],
  ['the page of a load balancer', { status: 404, body: page }, 'Its server is: cloudflare'],
  ['a page without a type', { status: 403, type: '', body: page }, 'It says: Just a moment'],
]
const own: readonly (readonly [string, Given, string])[] = [
  ['nothing', { status: 401, type: '', body: '' }, 'AuthenticationError'],
  ['a message', { status: 401, type: 'application/json', body: '{"message":"no"}' }, 'Auth'],
  ['a word', { status: 401, type: 'text/plain', body: 'Unauthorized\n' }, 'AuthenticationError'],
  ['a word of 403', { status: 403, type: 'text/plain', body: 'forbidden' }, 'EntitlementError'],
  ['no route', { status: 404, type: 'text/plain', body: '404 page not found\n' }, 'APIError'],
  [
    'a nested message',
    { status: 403, type: 'application/json', body: '{"error":{"message":"your plan has none"}}' },
    'your plan has none',
  ],
  [
    'a message with a challenge',
    {
      status: 401,
      type: 'application/json',
      body: '{"error":"bad signature"}',
      more: { 'www-authenticate': 'HMAC' },
    },
    'bad signature',
  ],
  ['a message named as a page', { status: 401, body: '{"error":"unauthorized"}' }, 'unauthorized'],
  ['words named as a page', { status: 403, body: 'Forbidden' }, 'EntitlementError'],
  ...['Invalid credentials', 'invalid apikey', 'User is suspended', 'clock skew too large'].map(
    body => [body, { status: 403, type: 'text/plain', body }, 'EntitlementError'] as const,
  ),
  ['words of its own', { status: 401, type: 'text/plain', body: 'no' }, 'AuthenticationError'],
  [
    'a list of messages',
    { status: 403, type: 'application/json', body: '{"errors":[{"message":"no access"}]}' },
    'no access',
  ],
]

describe('a request that is answered with', () => {
  test.each(foreign)('%s is told as that, and retried', async (_what, given, says) => {
    const place = await startPlace([given, given, undefined])
    expect(await place.client.listFeeds()).toEqual([])
    expect(place.calls).toHaveLength(3)
    const lasting = await startPlace([given])
    const error = await failureOf(lasting.client.listFeeds())
    expect(error).toMatchObject({ name: 'APIError', isForeign: true, isRetryable: true })
    expect(error.message).toContain(`answered ${given.status}`)
    expect(error.message).toContain('Not the service has answered')
    expect(error.message).toContain(says)
    expect(lasting.calls).toHaveLength(4)
  })

  test.each(own)('%s is the service’s, and not retried', async (_what, given, says) => {
    const { client, calls } = await startPlace([given])
    const error = await failureOf(client.listFeeds())
    expect(`${error.name} ${error.message}`).toContain(says)
    expect(error).toMatchObject({ isRetryable: false })
    expect(error).not.toHaveProperty('isForeign')
    expect(calls).toHaveLength(1)
  })

  test('what repeats a secret does not quote it', async () => {
    const body = '<title>denied: a-key-of-yours 0123</title>'
    const { client } = await startPlace([{ status: 403, body, server: 'a-key' }])
    const error = await failureOf(client.listFeeds())
    expect(error.message).not.toContain('a-key')
  })
})

test('a stream that was connected outlives such answers, however many; one that never was gives up', async () => {
  const portal: Given = { status: 403, body: page }
  const place = await startPlace([undefined, ...Array(3).fill(portal), undefined])
  const { stream, errors } = place.open({ maxReconnectAttempts: 1 })
  await stream.connect()
  await until(() => place.sockets.clients.size === 1)
  place.lose()
  await until(() => place.calls.length >= 5 && place.sockets.clients.size === 1)
  expect(errors.some(({ message }) => /gave up/.test(message))).toBe(false)
  await until(() => stream.getMetrics().activeConnections === 1)

  const closed = await startPlace([portal])
  const never = closed.open({ maxReconnectAttempts: 1 })
  expect((await failureOf(never.stream.connect())).message).toContain('It says: Just a moment')
  expect(closed.calls).toHaveLength(2)
})
