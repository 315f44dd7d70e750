import { type AddressInfo, createServer, type Server } from 'node:net'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { APIError, createClient, defaultPreset, isStreamsError, type Plugin } from '../../index.js'
import { hurry } from '../support/hurry.js'
import { failureOf, until } from '../support/waiting.js'

beforeEach(() => hurry())

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

let engine: DataEngine
const servers: Server[] = []
const closers: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0 })
  for (let at = 0; at < 10; at++)
    engine.publish(ethUsd, { observationsTimestamp: 1_700_000_000 + at })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  for (const server of servers.splice(0)) server.close()
})
afterAll(() => engine.close())

type Answering = (request: Buffer, write: (data: string | Buffer, end?: boolean) => void) => void

/** A server that is no HTTP server but does what it is told with the bytes that come. */
async function answering(answer: Answering): Promise<number> {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.on('data', data =>
      answer(data, (out, end = false) => void (end ? socket.end(out) : socket.write(out))),
    )
    closers.push(async () => socket.destroy())
  })
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

function clientOf(config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryAttempts: 0,
    ...config,
  })
  closers.push(() => client.close())
  return client
}

const stackOf = (extra: Plugin[]) => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [...extra, ...defaultPreset({ apiKey, userSecret, retryAttempts: 0 })],
  })
  closers.push(() => client.close())
  return client
}

/** Everything there is to see of an error, and of what lies underneath it. */
const shown = (error: unknown) =>
  inspect(error, { depth: 12, showHidden: true, maxStringLength: null, maxArrayLength: null }) +
  buffersIn(error)
function buffersIn(error: unknown, depth = 0): string {
  if (typeof error !== 'object' || error === null || depth > 6) return ''
  return Reflect.ownKeys(error)
    .map(key => Reflect.get(error, key))
    .map(value => (Buffer.isBuffer(value) ? value.toString() : buffersIn(value, depth + 1)))
    .join('')
}

describe('a server that sends back what it was sent', () => {
  test.each([
    ['as it came', (request: Buffer) => request],
    [
      'behind a status line',
      (request: Buffer) => Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\n'), request]),
    ],
    [
      'as a chunk size',
      (request: Buffer) =>
        Buffer.concat([
          Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'),
          request,
        ]),
    ],
    [
      'in the reason of a refusal',
      (request: Buffer) =>
        Buffer.from(`HTTP/1.1 401 ${request.toString().replace(/\s+/g, ' ')}\r\n\r\n`),
    ],
    [
      'in upper case, cut short',
      (request: Buffer) => {
        const body = JSON.stringify({
          message: request
            .toString()
            .toUpperCase()
            .replace(/.(?=[\r\n])/g, ''),
        })
        return Buffer.from(
          `HTTP/1.1 400 Bad Request\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        )
      },
    ],
  ])('%s: no error shows key or signature', async (name, echo) => {
    const signatures: string[] = []
    const port = await answering((request, write) => {
      signatures.push(/signature-sha256: ([0-9a-f]{64})/i.exec(request.toString())?.[1] ?? 'none')
      write(echo(request), true)
    })
    const client = clientOf({
      endpoint: `http://127.0.0.1:${port}`,
      wsEndpoint: `ws://127.0.0.1:${port}`,
    })
    const errors = [
      await failureOf(client.listFeeds()),
      await failureOf(client.createStream(ethUsd, { maxReconnectAttempts: 0 }).connect()),
    ]
    // Who is refused a stream asks which feeds may be read.
    expect(signatures).toHaveLength(name === 'in the reason of a refusal' ? 3 : 2)
    for (const error of errors) {
      expect(isStreamsError(error)).toBe(true)
      const all = shown(error).toLowerCase()
      for (const secret of [engine.apiKey, engine.userSecret, ...signatures]) {
        expect(all).not.toContain(secret.toLowerCase().slice(0, -2))
      }
    }
  })
})

describe('a refusal whose body does not end', () => {
  test('is told by its status all the same', async () => {
    let requests = 0
    const port = await answering((_request, write) => {
      requests++
      write('HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000\r\n\r\n{')
    })
    const client = clientOf({
      endpoint: `http://127.0.0.1:${port}`,
      wsEndpoint: `ws://127.0.0.1:${port}`,
      retryAttempts: 3,
      retryDelay: 1,
    })
    expect(await failureOf(client.listFeeds())).toMatchObject({
      name: 'AuthenticationError',
      statusCode: 401,
    })
    expect(await failureOf(client.createStream(ethUsd).connect())).toMatchObject({
      name: 'AuthenticationError',
      statusCode: 401,
    })
    // The third asks which feeds may be read.
    expect(requests).toBe(3)
  })
})

describe('an answer that is not held to the question', () => {
  test('is refused where it is older than the page, and sorted where it is not in order', async () => {
    const all = engine.ledger().map(({ feedID, fullReport }) => ({ feedID, fullReport }))
    engine.fail({ status: 200, body: JSON.stringify({ reports: all }) })
    expect(await failureOf(clientOf().getReportsPage(ethUsd, 1_700_000_005))).toMatchObject({
      code: 'API_RESPONSE',
    })
    engine.fail({ status: 200, body: JSON.stringify({ reports: [...all].reverse() }) })
    const page = await clientOf().getReportsPage(ethUsd, 1_700_000_000)
    expect(page.map(report => report.observationsTimestamp)).toEqual(
      Array.from({ length: 10 }, (_, at) => 1_700_000_000 + at),
    )
    expect(page.nextStartTime).toBe(1_700_000_010)
  })

  test('is refused where a bulk has two reports of one feed', async () => {
    const [first, second] = engine.ledger()
    engine.fail({ status: 200, body: JSON.stringify({ reports: [first, second] }) })
    expect(await failureOf(clientOf().getReportsBulk([ethUsd], 1_700_000_000))).toMatchObject({
      code: 'API_RESPONSE',
    })
  })

  test('is refused where a report has a character that is no digit, decoded or not', async () => {
    const report = engine.ledger()[0]
    const fullReport = `${report?.fullReport.slice(0, -8)}<script>`
    engine.fail({ status: 200, body: JSON.stringify({ report: { feedID: ethUsd, fullReport } }) })
    expect(await failureOf(clientOf().getLatestReport(ethUsd))).toMatchObject({ code: 'DECODING' })
    const client = clientOf()
    const stream = client.createStream(ethUsd)
    const seen: unknown[] = []
    stream.on('report', each => void seen.push(each))
    const failed = new Promise(resolve => stream.once('error', resolve))
    await stream.connect()
    engine.send(JSON.stringify({ report: { feedID: ethUsd, fullReport } }))
    expect(await failed).toMatchObject({ code: 'DECODING' })
    expect(seen).toEqual([])
  })
})

describe('a plugin that goes wrong', () => {
  test('by forgetting its reply is named', async () => {
    const forgetful: Plugin = {
      name: 'forgetful',
      call: next =>
        (async (call: Parameters<typeof next>[0]) => {
          await next(call)
        }) as never,
    }
    const client = stackOf([forgetful])
    const error = await failureOf(client.listFeeds())
    expect(error).toMatchObject({ code: 'PLUGIN' })
    expect(error.message).toMatch(/plugin forgetful: call must return the reply/)
  })

  test('by throwing is an error of code PLUGIN, in a request and in a stream', async () => {
    const cause = new TypeError('mine')
    const broken: Plugin = {
      name: 'broken',
      attempt: () => () => {
        throw cause
      },
    }
    const client = stackOf([broken])
    const failures = [client.listFeeds(), client.createStream(ethUsd).connect()].map(failureOf)
    for (const error of await Promise.all(failures)) {
      expect(error).toMatchObject({ code: 'PLUGIN', cause })
      expect(error.message).toMatch(/^GET .*: plugin broken threw: mine$/)
    }
    const picky: Plugin = {
      name: 'picky',
      report: () => () => {
        throw cause
      },
    }
    for (const error of await failuresOn(picky)) {
      expect(error).toMatchObject({ code: 'PLUGIN', cause })
      expect(error.message).toBe(`plugin picky threw on a report of feed ${ethUsd}: mine`)
    }
  })

  test('by throwing an error of this library fails with that, in a request and in a stream', async () => {
    const own = new APIError('too old', { code: 'API_RESPONSE' })
    const strict: Plugin = {
      name: 'strict',
      report: () => () => {
        throw own
      },
    }
    expect(await failuresOn(strict)).toEqual([own, own])
  })

  /** What a request and a stream fail with where a plugin throws on a report. */
  async function failuresOn(plugin: Plugin): Promise<Error[]> {
    const client = stackOf([plugin])
    const stream = client.createStream(ethUsd)
    const failed = new Promise<Error>(resolve => stream.once('error', resolve))
    await stream.connect()
    engine.publish(ethUsd)
    return [await failureOf(client.getLatestReport(ethUsd)), await failed]
  }

  test('by being async where it must not be is refused', async () => {
    const { endpoint, wsEndpoint } = engine
    const setup: Plugin = { name: 'slow-start', setup: (async () => undefined) as never }
    expect(() => createClient({ endpoint, wsEndpoint, plugins: [setup] })).toThrow(
      /slow-start: setup must not be async/,
    )
    const report: Plugin = { name: 'slow', report: next => async each => next(each) }
    const stream = stackOf([report]).createStream(ethUsd)
    const rule = /slow: report must return a function that is not async/
    expect((await failureOf(stream.connect())).message).toMatch(rule)
    expect((await failureOf(stream.closed)).message).toMatch(rule)
  })

  test('by holding a report back does not move the page cursor', async () => {
    const none: Plugin = { name: 'none', report: () => () => undefined }
    const page = await stackOf([none]).getReportsPage(ethUsd, 1_700_000_000, 4)
    expect(page).toHaveLength(0)
    expect(page.nextStartTime).toBe(1_700_000_004)
  })

  test('by never settling holds up no close', async () => {
    const stuck: Plugin = { name: 'stuck', attempt: () => () => new Promise(() => undefined) }
    const client = stackOf([stuck])
    const stream = client.createStream(ethUsd)
    stream.connect().catch(() => undefined)
    await stream.close()
    await client.close()
  })

  test('by connecting to an origin twice leaves the registry of connections right', async () => {
    const twice: Plugin = {
      name: 'twice',
      call: next => async call =>
        call.kind === 'stream' ? (await Promise.all([next(call), next(call)]))[0] : next(call),
    }
    const calls: boolean[] = []
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({
      endpoint,
      wsEndpoint,
      connectionStatusCallback: isConnected => void calls.push(isConnected),
      plugins: [
        twice,
        ...defaultPreset({ apiKey, userSecret }).filter(plugin => plugin.name !== 'retry'),
      ],
    })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd)
    let downs = 0
    stream.on('disconnected', () => void downs++)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.disconnect(1000)
    await stream.closed.catch(() => undefined)
    await until(() => stream.getMetrics().activeConnections === 0)
    expect([calls, downs]).toEqual([[true, false], 1])
  })
})

describe('a plugin that listens', () => {
  test('hears of connections from its report stage on', async () => {
    const types: string[] = []
    const curious: Plugin = {
      name: 'curious',
      report: (next, scope) => {
        if (scope.kind === 'stream') scope.connections.watch(({ type }) => void types.push(type))
        return next
      },
    }
    await stackOf([curious]).createStream(ethUsd).connect()
    expect(types).toEqual(['connecting', 'connected'])
  })
})

describe('a wrong argument', () => {
  test.each([
    [
      'a controller for a signal',
      () => clientOf().listFeeds({ signal: new AbortController() as never }),
      /signal must be an AbortSignal: give the signal of the controller/,
    ],
    [
      'null for options',
      () => clientOf().listFeeds(null as never),
      /listFeeds takes an object of options, not null/,
    ],
    [
      'a signal of a stream that is none',
      async () => clientOf().createStream(ethUsd, { signal: {} as never }),
      /signal must be an AbortSignal/,
    ],
    [
      'null for the options of a stream',
      async () => clientOf().createStream(ethUsd, null as never),
      /createStream takes an object of options, not null/,
    ],
    [
      'a handler that is none',
      async () =>
        clientOf()
          .createStream(ethUsd)
          .on('report', null as never),
      /handler must be a function/,
    ],
  ])('%s is a ValidationError', async (_name, act, message) => {
    const error = await failureOf(act())
    expect(error).toMatchObject({ code: 'VALIDATION' })
    expect(error.message).toMatch(message)
  })
})
