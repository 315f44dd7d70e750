import { createConnection, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { Registry } from 'prom-client'
import { Health, type HealthServer, serveHealth, streamHealth } from '../../health/index.js'
import { createClient } from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { until } from '../support/waiting.js'

const closers = closeAfterEach()
const servers: HealthServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

async function serve(options = {}): Promise<HealthServer> {
  const server = await serveHealth({ processMetrics: false, ...options })
  servers.push(server)
  return server
}

async function ask({ url }: HealthServer, path: string, method = 'GET') {
  const answer = await fetch(`${url}${path}`, { method })
  return { status: answer.status, text: await answer.text() }
}

describe('connections of strangers', () => {
  const connections: Socket[] = []
  afterEach(() => {
    for (const each of connections.splice(0)) each.destroy()
  })
  /** Opens a connection that sends this, and counts what comes back and whether it is closed. */
  function connectTo({ url }: HealthServer, text: string) {
    const { hostname, port } = new URL(url)
    const seen = { isClosed: false, answer: '' }
    const socket = createConnection(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      seen.isClosed = true
    })
    socket.on('data', chunk => {
      seen.answer += chunk
    })
    socket.write(text)
    connections.push(socket)
    return seen
  }

  test('are bounded, and each must bring a request in time', async () => {
    const server = await serve()
    const slow = Array.from({ length: 200 }, () =>
      connectTo(server, 'GET /live HTTP/1.1\r\nhost: x\r\n'),
    )
    // Those beyond the limit are closed at once, and keep no other out. The rest is closed once its time is up.
    await until(() => slow.filter(({ isClosed }) => isClosed).length >= 136)
    expect(slow.at(-1)?.isClosed).toBe(false)
    expect(await ask(server, '/live')).toMatchObject({ status: 200 })
    expect(slow.filter(({ answer }) => answer !== '')).toEqual([])
    await until(() => slow.every(({ isClosed }) => isClosed))
    expect(await ask(server, '/ready')).toMatchObject({ status: 503 })
  }, 30_000)

  test('do not bring long heads', async () => {
    const server = await serve()
    const right = connectTo(
      server,
      `GET /live HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(6000)}\r\n\r\n`,
    )
    const long = connectTo(
      server,
      `GET /live HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(9000)}\r\n\r\n`,
    )
    await until(() => right.answer.includes('200 OK') && long.answer.includes('431 '))
  })
})

describe('the pages of health', () => {
  test('say that nothing has started yet', async () => {
    const server = await serve()
    expect(await ask(server, '/ready')).toEqual({ status: 503, text: 'starting\n' })
    server.waitFor('NATS at 127.0.0.1:4222')
    expect((await ask(server, '/ready')).text).toBe(
      'starting: waiting for NATS at 127.0.0.1:4222\n',
    )
    expect(await ask(server, '/live')).toMatchObject({ status: 200 })
  })

  test('list each problem with its severity, its time and its words', async () => {
    const server = await serve()
    const causes = { slow: 'warning', away: 'unready' } as const
    const health = new Health({
      ...{ service: 'relay', causes },
      measures: [
        {
          ...{ name: 'sluice.relay.lag', kind: 'gauge', unit: 's', description: 'how late' },
          read: () => 1.5,
        },
        {
          ...{ name: 'sluice.relay.answers', kind: 'counter', unit: '{answer}' },
          ...{ description: 'answers', attribute: 'sluice.outcome' },
          read: () => new Map([['ok', 3]]),
        },
        {
          ...{ name: 'sluice.relay.absent', kind: 'gauge', unit: '{report}', description: 'none' },
          read: () => undefined,
        },
      ],
    })
    server.add(health)
    health.set('slow', 'it takes long')
    expect(await ask(server, '/ready')).toMatchObject({ status: 200 })
    health.set('away', 'nobody answers')
    const { status, text } = await ask(server, '/ready')
    expect(status).toBe(503)
    expect(text).toMatch(
      /^relay: not ready\nrelay: warning: slow since \S+Z: it takes long\nrelay: unready: away since \S+Z: nobody answers\n$/,
    )
    expect(await ask(server, '/health')).toEqual({ status, text })
    expect(await ask(server, '/live')).toMatchObject({ status: 200 })
    expect((await ask(server, '/metrics')).text.split('\n')).toEqual(
      expect.arrayContaining([
        '# TYPE sluice_problem gauge',
        '# TYPE sluice_problems_total counter',
        '# TYPE sluice_relay_answers_total counter',
        'sluice_ready{sluice_service="relay"} 0',
        'sluice_problem{sluice_service="relay",sluice_cause="away"} 1',
        'sluice_problems_total{sluice_service="relay",sluice_cause="slow"} 1',
        'sluice_relay_lag_seconds 1.5',
        'sluice_relay_answers_total{sluice_outcome="ok"} 3',
      ]),
    )
    expect(() => server.add(health)).toThrow(/has a metric sluice_relay_lag_seconds already/)
  })

  test('are these alone, and are only read', async () => {
    const server = await serve()
    expect(await ask(server, '/elsewhere')).toMatchObject({ status: 404 })
    expect(await ask(server, '/ready', 'POST')).toMatchObject({ status: 405 })
  })

  test('show the metrics of a registry that is given', async () => {
    const register = new Registry()
    const server = await serve({ register, processMetrics: true })
    expect(server.register).toBe(register)
    expect((await ask(server, '/metrics')).text).toMatch(/^process_start_time_seconds \d/m)
  })

  test('on a port that is in use are an error that says so', async () => {
    const { url } = await serve()
    const port = Number(new URL(url).port)
    await expect(serveHealth({ port })).rejects.toThrow(
      `port ${port} of 127.0.0.1 can’t be listened on: it is in use`,
    )
  })
})

test('a stream says what it lacks, why, and since when', async () => {
  const feed = `0x1003${'1'.padStart(60, '0')}`
  const engine = await startDataEngine({ feeds: [feed], intervalMs: 20, origins: 2 })
  closers.push(() => engine.close())
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, haMode: true })
  closers.push(() => client.close())
  const stream = client.createStream([feed], { maxReconnectAttempts: 3 })
  stream.on('error', () => undefined)
  stream.on('report', () => undefined)
  const health = streamHealth(stream)
  closers.push(() => health.end())
  const now = (): string => {
    health.refresh()
    return health.problems.map(({ cause, message }) => `${cause}: ${message}`).join('\n')
  }
  expect(now()).toBe('no-connection: no connection of 1 is open')
  await stream.connect()
  await until(() => now() === '')
  await engine.stop()
  await until(() => /^no-connection: no connection of 2 is open: .*ECONNREFUSED/m.test(now()))
  await until(() => /^stream-ended: the stream has failed: /m.test(now()))
  expect(health.isAlive).toBe(false)
})
