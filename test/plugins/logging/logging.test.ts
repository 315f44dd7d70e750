import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  createClient,
  type Logger,
  type LoggingConfig,
  LogLevel,
  logging as loggingPlugin,
  type Plugin,
  type StreamOptions,
} from '../../../index.js'
import { pause, until } from '../../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const unknownVersion = `0x0fff${'ab'.repeat(30)}`

let engine: DataEngine
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 3 })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  engine.blackhole(false)
})
afterAll(() => engine.close())

type Line = [level: 'debug' | 'info' | 'warn' | 'error', message: string, ...facts: unknown[]]

function record(): { lines: Line[]; logger: Required<Logger> } {
  const lines: Line[] = []
  const write =
    (level: Line[0]) =>
    (message: string, ...facts: unknown[]) =>
      void lines.push([level, message, ...facts])
  return {
    lines,
    logger: {
      debug: write('debug'),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
    },
  }
}

test.each([[{}], [{ log: console.log }], [() => undefined]])(
  'a logger without a function of a level is refused: %p',
  logger => {
    expect(() => loggingPlugin({ logger: logger as Logger })).toThrow(
      'logging.logger must be an object with some of debug, info, warn and error',
    )
  },
)

function setUp(logging: LoggingConfig, config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 1,
    logging,
    ...config,
  })
  closers.push(() => client.close())
  return client
}

const settled = (promise: Promise<unknown>) => promise.catch(() => undefined)

type Logged = ReturnType<typeof record>
const fast: StreamOptions = { reconnectInterval: 200 }

async function stream(
  logged: Logged,
  options: StreamOptions = fast,
  config: object = {},
  logging: object = {},
) {
  const client = setUp({ logger: logged.logger, logLevel: LogLevel.DEBUG, ...logging }, config)
  const opened = client.createStream(ethUsd, options)
  await settled(opened.connect())
  return opened
}

/** The table of levels: each line, its level and its cause. */
const table: [
  level: Line[0],
  content: string,
  pattern: RegExp,
  act: (logged: Logged) => Promise<unknown>,
][] = [
  [
    'error',
    'authentication failures',
    /listFeeds failed: .*answered 401/,
    async ({ logger }) => {
      engine.fail({ status: 401 })
      await settled(setUp({ logger }).listFeeds())
    },
  ],
  [
    'error',
    'network connection errors',
    /attempt of stream failed: .*ECONNREFUSED/,
    async logged => {
      await stream(logged, { maxReconnectAttempts: 0 }, { wsEndpoint: 'ws://127.0.0.1:1' })
    },
  ],
  [
    'error',
    'report decoding failures',
    /report decoding failed: .*V4095/,
    async ({ logger }) => {
      const { decodeUnknown } = await unknownReport()
      await decodeUnknown(setUp({ logger }))
    },
  ],
  [
    'error',
    'API request failures',
    /listFeeds failed: .*answered 500/,
    async ({ logger }) => {
      engine.fail({ status: 500 })
      await settled(setUp({ logger }, { retryAttempts: 0 }).listFeeds())
    },
  ],
  [
    'error',
    'unexpected crashes of handlers',
    /handler of report threw: mine/,
    async logged => {
      const opened = await stream(logged)
      opened.on('report', () => {
        throw new Error('mine')
      })
      engine.publish(ethUsd)
      await until(() => logged.lines.some(([level]) => level === 'error'))
    },
  ],
  [
    'error',
    'the end of a stream that gave up',
    /the stream has ended: gave up on .*\. To go on, create another stream, or set maxReconnectAttempts to Infinity/,
    async logged => {
      await stream(logged, { maxReconnectAttempts: 0 }, { wsEndpoint: 'ws://127.0.0.1:1' })
    },
  ],
  [
    'warn',
    'retry attempts',
    /listFeeds: retry 1 of 3 in \d+ ms, after: GET .* answered 503/,
    async ({ logger }) => {
      engine.fail({ status: 503 })
      await setUp({ logger }).listFeeds()
    },
  ],
  [
    'warn',
    'reconnection attempts',
    /reconnecting to .*: attempt 1 of 5 in \d+ ms, after: /,
    async logged => {
      await stream(logged)
      engine.disconnect(1000)
      await until(() => logged.lines.some(([level]) => level === 'warn'))
    },
  ],
  [
    'warn',
    'connection timeouts',
    /timed out after 50 ms/,
    async logged => {
      engine.blackhole(true)
      await stream(logged, { connectTimeout: 50, maxReconnectAttempts: 0 })
    },
  ],
  [
    'warn',
    'invalid data warnings',
    /invalid data: .*it is not JSON/,
    async logged => {
      await stream(logged)
      engine.send('garbage')
      await until(() => logged.lines.some(([level]) => level === 'warn'))
    },
  ],
  [
    'warn',
    'reports missing from a bulk answer',
    /getReportsBulk: no report at 5 for 0x/,
    async ({ logger }) => {
      await setUp({ logger }).getReportsBulk([ethUsd], 5)
    },
  ],
  [
    'info',
    'client initialization',
    /^client initialized$/,
    async ({ logger }) => setUp({ logger }),
  ],
  [
    'info',
    'successful API calls',
    /listFeeds succeeded in \d+ ms/,
    async ({ logger }) => setUp({ logger }).listFeeds(),
  ],
  [
    'info',
    'new streams',
    /^stream of 1 feed created$/,
    async ({ logger }) => void setUp({ logger }).createStream(ethUsd),
  ],
  ['info', 'stream connections', /stream of 1 feed starts/, async logged => stream(logged)],
  [
    'info',
    'report retrievals',
    /getLatestReport: 1 report retrieved/,
    async ({ logger }) => setUp({ logger }).getLatestReport(ethUsd),
  ],
  [
    'info',
    'connection status changes: up',
    /^connected to 127\.0\.0\.1/,
    async logged => stream(logged),
  ],
  [
    'info',
    'connection status changes: down',
    /^disconnected from 127\.0\.0\.1/,
    async logged => {
      await stream(logged)
      engine.disconnect(1000)
      await until(() => logged.lines.some(([, message]) => message.startsWith('disconnected')))
    },
  ],
  [
    'info',
    'connection mode determination',
    /^connection mode: single$/,
    async logged => stream(logged),
  ],
  ['debug', 'feed id validation', /feed ids are valid: 0x0003/, async logged => stream(logged)],
  [
    'debug',
    'report decoding steps',
    /^report of feed 0x0003.* decoded$/,
    async logged => {
      const client = setUp({ logger: logged.logger, logLevel: LogLevel.DEBUG })
      return (await client.getLatestReport(ethUsd)).decoded
    },
  ],
  [
    'debug',
    'auth header generation',
    /auth headers generated for listFeeds/,
    async ({ logger }) => setUp({ logger, logLevel: LogLevel.DEBUG }).listFeeds(),
  ],
  [
    'debug',
    'requests',
    /→ GET \/api\/v1\/feeds/,
    async ({ logger }) => setUp({ logger, logLevel: LogLevel.DEBUG }).listFeeds(),
  ],
  [
    'debug',
    'answers',
    /← 200, \d+ bytes/,
    async ({ logger }) => setUp({ logger, logLevel: LogLevel.DEBUG }).listFeeds(),
  ],
  [
    'debug',
    'WebSocket pings, when asked for',
    /^ping sent$/,
    async logged => {
      await stream(logged, { pingInterval: 20 }, {}, { enableConnectionDebug: true })
      await until(() => logged.lines.some(([, message]) => message === 'ping sent'))
    },
  ],
  [
    'debug',
    'WebSocket pongs, when asked for',
    /^ping or pong received$/,
    async logged => {
      await stream(logged, { pingInterval: 20 }, {}, { enableConnectionDebug: true })
      await until(() => logged.lines.some(([, message]) => message === 'ping or pong received'))
    },
  ],
  [
    'debug',
    'configuration validation',
    /^configuration is valid$/,
    async ({ logger }) => setUp({ logger, logLevel: LogLevel.DEBUG }),
  ],
  [
    'debug',
    'which origin brought a report',
    /^report of feed 0x0003.* from ws:\/\/127/,
    async logged => {
      await stream(logged)
      engine.publish(ethUsd)
      await until(() => logged.lines.some(([, message]) => message.startsWith('report of feed')))
    },
  ],
]

/** A report of a version without a decoder: the bytes of another, under another name. */
async function unknownReport() {
  const published = engine.ledger().at(-1)
  const digits = (published?.fullReport ?? '').replace(ethUsd.slice(2), unknownVersion.slice(2))
  const report = { feedID: unknownVersion, fullReport: digits }
  return {
    async decodeUnknown(client: ReturnType<typeof setUp>) {
      engine.fail({ status: 200, body: JSON.stringify({ report }) })
      const record = await client.getLatestReport(unknownVersion)
      expect(record.fullReport).toBe(digits)
      expect(() => record.decoded).toThrow(/V4095/)
    },
  }
}

describe('the level table', () => {
  test.each(table)('%s: %s', async (level, _content, pattern, act) => {
    const logged = record()
    await act(logged)
    const [found] = logged.lines.filter(([, message]) => pattern.test(message))
    expect(found?.[0]).toBe(level)
  })

  const order = ['debug', 'info', 'warn', 'error'] as const
  test.each([
    ['DEBUG', LogLevel.DEBUG],
    ['INFO', LogLevel.INFO],
    ['WARN', LogLevel.WARN],
    ['ERROR', LogLevel.ERROR],
  ])('%s includes the levels above it and none below', async (_name, logLevel) => {
    const { lines, logger } = record()
    const client = setUp({ logger, logLevel })
    engine.fail({ status: 503 })
    await client.listFeeds()
    engine.fail({ status: 401 })
    await settled(client.listFeeds())
    expect(new Set(lines.map(([level]) => level))).toEqual(new Set(order.slice(logLevel)))
  })

  test('a level is known by its name, and a name by its level', () => {
    const { lines, logger } = record()
    setUp({ logger, logLevel: 'WARN' })
    expect(lines).toEqual([])
    setUp({ logger, logLevel: LogLevel[LogLevel.INFO] })
    expect(lines).not.toEqual([])
  })
})

describe('a logger', () => {
  test('need have only some of the functions, and keeps its `this`', async () => {
    class Own {
      readonly lines: string[] = []
      info(message: string): void {
        this.lines.push(message)
      }
    }
    const own = new Own()
    await setUp({ logger: own, logLevel: LogLevel.DEBUG }).listFeeds()
    expect(own.lines).toContain('client initialized')
    await setUp({}).listFeeds()
  })

  test('that throws, or rejects, changes nothing', async () => {
    const fail = () => {
      throw new Error('logger')
    }
    const reject = async () => fail()
    const client = setUp({
      logger: { debug: fail, info: reject, warn: fail, error: reject },
      logLevel: LogLevel.DEBUG,
    })
    engine.fail({ status: 503 })
    expect(await client.listFeeds()).toHaveLength(1)
    const opened = client.createStream(ethUsd)
    const reports: unknown[] = []
    opened.on('report', report => void reports.push(report))
    await opened.connect()
    engine.publish(ethUsd)
    engine.send('garbage')
    engine.publish(ethUsd)
    await until(() => reports.length === 2)
  })

  test('gets pings and pongs only when it asks for them', async () => {
    const logged = record()
    await stream(logged, { pingInterval: 20 })
    await pause(100)
    expect(logged.lines.filter(([, message]) => /ping|pong/.test(message))).toEqual([])
  })

  test('never sees a secret, a signature or an Authorization value, at any level', async () => {
    const logged = record()
    const signatures: string[] = []
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const { defaultPreset } = await import('../../../index.js')
    const spy: Plugin = {
      name: 'spy',
      attempt: next => call => {
        signatures.push(call.headers.get('x-authorization-signature-sha256') ?? '')
        return next(call)
      },
    }
    const logging = { logger: logged.logger, logLevel: LogLevel.DEBUG, enableConnectionDebug: true }
    const plugins = [...defaultPreset({ apiKey, userSecret, logging, retryDelay: 1 }), spy]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    for (const status of [503, 400, 401, 500]) {
      engine.fail({ status, body: JSON.stringify({ message: `refused ${apiKey}` }) })
      await settled(client.getLatestReport(ethUsd))
    }
    const opened = client.createStream(ethUsd, { ...fast, maxReconnectAttempts: 1 })
    await opened.connect()
    engine.publish(ethUsd)
    engine.disconnect(1011)
    engine.fail({ status: 401, path: '/api/v1/ws', times: 9 })
    await settled(opened.closed)
    const text = JSON.stringify(logged.lines)
    expect(logged.lines.length).toBeGreaterThan(20)
    expect(signatures.length).toBeGreaterThan(5)
    for (const secret of [apiKey, ...signatures]) expect(text).not.toContain(secret)
    expect(text).toContain('repeats what was sent')
    expect(text).not.toContain(userSecret)
  })
})
