import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { until } from '@sluice/test-support/waiting.js'
import { Board } from '../../monitor/board.js'
import { Readers } from '../../monitor/readers.js'
import { startServer } from '../../monitor/server.js'
import { follow } from '../support/monitor/follow.js'

const closers = closeAfterEach()
const files = { '/': { type: 'text/html', body: Buffer.from('<h1>page</h1>') } }

interface Setting {
  readonly host?: string
  readonly token?: string
  readonly stallTimeout?: number
  /** Brings the board up to date. */
  refresh?(): void
}

/** A server, its board, and the responses of its readers. */
async function start({ host = '127.0.0.1', token, stallTimeout, refresh }: Setting = {}) {
  const board = new Board()
  const given: ServerResponse[] = []
  class WatchedReaders extends Readers {
    override add(response: ServerResponse): boolean {
      given.push(response)
      return super.add(response)
    }
  }
  const readers = new WatchedReaders(board, () => refresh?.(), stallTimeout)
  const answers = { '/rate': () => ({ rate: 1 }) }
  const server = await startServer({ host, port: 0, token, files, readers, answers })
  closers.push(() => server.close())
  return { board, readers, given, port: server.port }
}

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

function ask(port: number, path: string, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<Answer>((resolve, reject) => {
    const asked = request({ port, host: '127.0.0.1', path, headers, method, agent: false })
    asked.on('error', reject)
    asked.on('response', response => {
      let body = ''
      const answer = () =>
        resolve({ status: response.statusCode as number, headers: response.headers, body })
      response.on('data', chunk => {
        body += chunk
        // Events have no end.
        if (response.headers['content-type']?.startsWith('text/event-stream')) {
          answer()
          asked.destroy()
        }
      })
      response.on('end', answer)
      response.on('error', () => undefined)
    })
    asked.end()
  })
}

/** Reads events for as long as the test runs. */
function followAll(port: number) {
  const { messages, stop } = follow(port)
  closers.push(stop)
  return messages
}

describe('the server of the monitor', () => {
  test.each([
    ['the address', () => '127.0.0.1', 200],
    ['the address and the port', (port: number) => `127.0.0.1:${port}`, 200],
    ['localhost', (port: number) => `localhost:${port}`, 200],
    ['IPv6', (port: number) => `[::1]:${port}`, 200],
    ['another name, which may be led here', () => 'attacker.example', 421],
    ['a name that begins as one of ours', () => 'localhost.attacker.example', 421],
    ['an address elsewhere', () => '192.0.2.1', 421],
    ['no name at all', () => ' ', 421],
    ['what is no name', () => 'a@b:c', 421],
  ])('on loopback, by %s', async (_what, host, status) => {
    const { port } = await start()
    const Host = host(port)
    for (const path of ['/', '/events', '/health'])
      expect([path, (await ask(port, path, { Host })).status]).toEqual([path, status])
  })

  test('elsewhere than on loopback answers to addresses, since no name can be led to another one', async () => {
    const { port } = await start({ host: '0.0.0.0', token: 'secret' })
    expect((await ask(port, '/', { Host: '192.0.2.1' })).status).toBe(200)
    expect((await ask(port, '/', { Host: 'attacker.example' })).status).toBe(421)
  })

  test.each([
    [{}, 200],
    [{ 'Sec-Fetch-Site': 'same-origin' }, 200],
    [{ 'Sec-Fetch-Site': 'none' }, 200],
    [{ 'Sec-Fetch-Site': 'cross-site' }, 403],
    [{ 'Sec-Fetch-Site': 'same-site' }, 403],
    [{ Origin: 'http://127.0.0.1:1' }, 403],
    [{ Origin: 'https://attacker.example' }, 403],
    [{ Origin: 'null' }, 403],
  ])('answers to a page with %j: %i', async (headers, status) => {
    const { port } = await start()
    expect((await ask(port, '/events', headers)).status).toBe(status)
    expect((await ask(port, '/rate', headers)).status).toBe(status)
  })

  test('answers to its own page', async () => {
    const { port } = await start()
    const Origin = `http://127.0.0.1:${port}`
    expect((await ask(port, '/events', { Origin })).status).toBe(200)
  })

  test.each([
    [undefined, 401],
    ['', 401],
    ['Bearer', 401],
    ['Bearer secre', 401],
    ['Bearer secrets', 401],
    ['secret', 401],
    ['Bearer secret', 200],
  ])('asks for the token: %j is %i', async (authorization, status) => {
    const { port } = await start({ host: '0.0.0.0', token: 'secret' })
    const headers = authorization === undefined ? {} : { authorization }
    const { status: actual, body } = await ask(port, '/events', headers)
    expect(actual).toBe(status)
    expect(body).not.toContain('secret')
    expect((await ask(port, '/rate', headers)).status).toBe(actual)
    // It would stand in logs.
    expect((await ask(port, '/events?token=secret')).status).toBe(401)
  })

  test('protects every answer by its headers', async () => {
    const { port } = await start()
    for (const path of ['/', '/events', '/health', '/nothing', '/../package.json', '/__proto__']) {
      const { headers } = await ask(port, path)
      expect(headers['content-security-policy']).toMatch(/default-src 'none'; script-src 'self';/)
      expect(headers['content-security-policy']).toMatch(/require-trusted-types-for 'script'/)
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(headers['cache-control']).toBe('no-store')
      expect(headers['access-control-allow-origin']).toBeUndefined()
    }
    expect((await ask(port, '/nothing')).status).toBe(404)
    expect((await ask(port, '/__proto__')).status).toBe(404)
    expect((await ask(port, '/', {}, 'POST')).status).toBe(405)
    expect(await ask(port, '/', {}, 'HEAD')).toMatchObject({ status: 200, body: '' })
    expect(await ask(port, '/health')).toMatchObject({ status: 200, body: 'ok\n' })
  })

  test('says that its port is in use', async () => {
    const { port, readers } = await start()
    const again = startServer({ host: '127.0.0.1', port, token: undefined, files, readers })
    await expect(again).rejects.toThrow(
      `--port ${port} of 127.0.0.1 can’t be listened on: it is in use`,
    )
  })
})

const load = (memoryBytes: number) =>
  ({ loopP99Ms: 0, loopMaxMs: 0, cpu: 0, memoryBytes, readers: 1 }) as const

describe('a reader', () => {
  test('gets everything, then what has changed, a few times a second', async () => {
    let count = 0
    const { board, port } = await start({ refresh: () => board?.put('load', 0, load(++count)) })
    board.put('about', 0, { source: 'x', version: '1', startedAt: 1, wire: '' })
    const started = performance.now()
    const messages = followAll(port)
    const timer = setInterval(() => board.put('load', 1, load(Math.random())), 2)
    closers.push(() => clearInterval(timer))
    await until(() => messages.length >= 5)
    const seconds = (performance.now() - started) / 1000
    expect(messages.length).toBeLessThanOrEqual(4 * seconds + 2)
    const [first, ...others] = messages
    expect(first).toHaveProperty('about')
    for (const message of others) {
      expect(message).not.toHaveProperty('about')
      expect(message.load?.length).toBe(2)
    }
    const seqs = messages.map(({ seq }) => seq)
    expect(seqs).toEqual([...seqs].sort((one, other) => one - other))
  })

  test('gets a message now and then though nothing changes, and the board is read for nobody', async () => {
    let refreshed = 0
    const { port, readers } = await start({ refresh: () => void refreshed++ })
    await pause(400)
    expect(refreshed).toBe(0)
    const messages = followAll(port)
    await until(() => messages.length >= 2)
    expect(messages[1]).not.toHaveProperty('load')
    expect(readers.count).toBe(1)
  })

  test('is dropped when it does not read, while at most one message waits for it; others go on', async () => {
    const size = 4_000_000
    const { board, port, given, readers } = await start({
      // Long for a reader that reads on a busy machine.
      stallTimeout: 3000,
      refresh: () => {
        for (let index = 0; index < 4; index++)
          board?.put('about', index, {
            source: 'x'.repeat(size / 4),
            version: String(Math.random()),
            startedAt: 0,
            wire: '',
          })
      },
    })
    const slow = connect(port, '127.0.0.1')
    closers.push(() => slow.destroy())
    slow.pause()
    slow.on('error', () => undefined)
    slow.write('GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
    await until(() => given.length === 1)
    const messages = followAll(port)
    const [response] = given as [ServerResponse]
    let most = 0
    await until(() => {
      most = Math.max(most, response.writableLength)
      return response.destroyed
    })
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThan(1.5 * size)
    const before = messages.length
    await until(() => messages.length > before + 2)
    expect(readers.count).toBe(1)
  })

  test('is one of sixteen', async () => {
    const { port, readers } = await start()
    const all = Array.from({ length: 16 }, () => followAll(port))
    await until(() => all.every(messages => messages.length > 0))
    expect(await ask(port, '/events')).toMatchObject({ status: 503 })
    expect(readers.count).toBe(16)
  })
})
