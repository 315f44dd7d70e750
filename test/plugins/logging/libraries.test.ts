// Real loggers of pino and winston, whose lines are read back as the libraries have written them.
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { type Logger as PinoInstance, pino } from 'pino'
import winston from 'winston'
import { createClient, type Logger, LogLevel, pinoLogger, winstonLogger } from '../../../index.js'

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({ intervalMs: 0, history: 1 })
})
afterAll(() => engine.close())

/** A stream that takes lines of JSON, and what they hold. */
function sink() {
  const entries: Record<string, unknown>[] = []
  const texts: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      texts.push(String(chunk))
      for (const line of String(chunk).trim().split('\n')) entries.push(JSON.parse(line))
      done()
    },
  })
  return { entries, texts, stream }
}

/** Makes a request that is answered 503 once, and one that is answered 401: lines at every level. */
async function work(logger: Logger): Promise<void> {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 1,
    logging: { logger, logLevel: LogLevel.DEBUG },
  })
  engine.fail({ status: 503 })
  await client.listFeeds()
  engine.fail({ status: 401 })
  await client.listFeeds().catch(() => undefined)
  await client.close()
}

const lines = {
  client: {
    message: 'client initialized',
    facts: { endpoint: expect.any(String), plugins: expect.arrayContaining(['retry']) },
  },
  debug: {
    message: expect.stringMatching(/^attempt of listFeeds failed: .* answered 503/),
    facts: { errorName: 'APIError', code: 'API_STATUS', statusCode: 503 },
  },
  warn: {
    message: expect.stringMatching(/^listFeeds: retry 1/),
    facts: { operation: 'listFeeds' },
  },
  error: {
    message: expect.stringMatching(/^listFeeds failed: /),
    facts: { errorName: 'AuthenticationError', code: 'AUTHENTICATION' },
  },
  withoutFacts: expect.stringMatching(/^listFeeds succeeded in \d+ ms$/),
}

describe('pino', () => {
  function start(settings: object = {}) {
    const { entries, stream } = sink()
    return { entries, log: pino({ level: 'debug', ...settings }, stream) }
  }
  const handed: [how: string, logger: (log: PinoInstance) => Logger][] = [
    ['as it is', log => log],
    ['in pinoLogger', log => pinoLogger(log)],
    ['as a child', log => log.child({ service: 'prices' })],
  ]

  test('gets one line, with no field that pino writes itself', async () => {
    const { entries, stream, texts } = sink()
    await work(pino({ level: 'debug', name: 'prices' }, stream))
    for (const text of texts)
      expect(text.match(/"(name|level|time|pid|hostname)":/g)).toHaveLength(5)
    for (const { name, msg } of entries) {
      expect(name).toBe('prices')
      expect(msg).not.toMatch(/[\r\n]/)
    }
    expect(texts.join('')).toContain('answered 401; The service says: ')
  })

  test.each(handed)('keeps message, level and facts, handed over %s', async (_how, loggerOf) => {
    const { entries, log } = start()
    await work(loggerOf(log))
    const has = (level: number, { message, facts }: { message: unknown; facts: object }) =>
      expect(entries).toContainEqual(expect.objectContaining({ level, msg: message, ...facts }))
    has(30, lines.client)
    has(20, lines.debug)
    has(40, lines.warn)
    has(50, lines.error)
    has(30, { message: lines.withoutFacts, facts: {} })
    expect(entries.every(({ msg }) => typeof msg === 'string')).toBe(true)
  })

  test('a child keeps its own fields, too', async () => {
    const { entries, log } = start()
    await work(log.child({ service: 'prices' }))
    expect(new Set(entries.map(({ service }) => service))).toEqual(new Set(['prices']))
  })

  test('its level counts, also when it changes afterwards', async () => {
    const { entries, log } = start({ level: 'error' })
    await work(log)
    expect(new Set(entries.map(({ level }) => level))).toEqual(new Set([50]))
    log.level = 'warn'
    await work(log)
    expect(new Set(entries.map(({ level }) => level))).toEqual(new Set([50, 40]))
  })

  test('no percent sign of a message takes an argument', () => {
    const { entries, log } = start()
    pinoLogger(log).info?.('100 %d of %s, 5%%', { host: 'a' })
    expect(entries).toMatchObject([{ msg: '100 %d of %s, 5%%', host: 'a' }])
  })

  test('redacts facts by its own rules', () => {
    const { entries, log } = start({ redact: ['host'] })
    pinoLogger(log).info?.('connected', { host: 'a' })
    expect(entries).toMatchObject([{ host: '[Redacted]' }])
  })

  test.each([[undefined], [null], [{}], ['pino'], [pino]])('refuses %p', given => {
    expect(() => pinoLogger(given as never)).toThrow('pino must be a logger with some of debug')
  })
})

describe('winston', () => {
  function start(settings: winston.LoggerOptions = {}) {
    const { entries, stream } = sink()
    const transports = [new winston.transports.Stream({ stream })]
    const format = winston.format.json()
    return {
      entries,
      log: winston.createLogger({ level: 'debug', format, transports, ...settings }),
    }
  }
  const handed: [how: string, logger: (log: winston.Logger) => Logger][] = [
    ['as it is', log => log],
    ['in winstonLogger', log => winstonLogger(log)],
  ]

  test.each(handed)('keeps message, level and facts, handed over %s', async (_how, loggerOf) => {
    const { entries, log } = start()
    await work(loggerOf(log))
    const has = (level: string, { message, facts }: { message: unknown; facts: object }) =>
      expect(entries).toContainEqual(expect.objectContaining({ level, message, ...facts }))
    has('info', lines.client)
    has('debug', lines.debug)
    has('warn', lines.warn)
    has('error', lines.error)
    has('info', { message: lines.withoutFacts, facts: {} })
  })

  test('keeps facts beside a message with percent signs, also with the format splat', () => {
    const { entries, log } = start({
      format: winston.format.combine(winston.format.splat(), winston.format.json()),
    })
    winstonLogger(log).info?.('GET /%d%s of 100 %', { host: 'a' })
    expect(entries).toMatchObject([{ level: 'info', message: 'GET /%d%s of 100 %', host: 'a' }])
  })

  test('no fact takes the place of the message or the level', () => {
    const { entries, log } = start()
    winstonLogger(log).warn?.('mine', { message: 'theirs', level: 'error' })
    expect(entries).toMatchObject([{ level: 'warn', message: 'mine' }])
  })

  test('keeps the line of a fact that can not be written', () => {
    const { entries, log } = start()
    const response = {
      get body() {
        throw new Error('the body was read already')
      },
    }
    winstonLogger(log).warn?.('slow', { response })
    expect(entries).toEqual([{ level: 'warn', message: 'slow' }])
  })

  test('keeps its default meta', () => {
    const { entries, log } = start({ defaultMeta: { service: 'prices' } })
    winstonLogger(log).info?.('connected', { host: 'a' })
    expect(entries).toMatchObject([{ service: 'prices', host: 'a' }])
  })

  test('warns as warning with the levels of syslog, and leaves out what its levels have not', () => {
    const syslog = start({ levels: winston.config.syslog.levels })
    winstonLogger(syslog.log).warn?.('slow', { host: 'a' })
    expect(syslog.entries).toMatchObject([{ level: 'warning', message: 'slow', host: 'a' }])
    const few = start({ levels: { error: 0, info: 1 }, level: 'info' })
    expect(Object.keys(winstonLogger(few.log))).toEqual(['info', 'error'])
  })

  test.each([[undefined], [null], [{}], [console]])('refuses %p', given => {
    expect(() => winstonLogger(given as never)).toThrow('winston must be a logger with log and')
  })
})
