import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { type Config, createClient, retry, ValidationError } from '../../index.js'

const good: Config = {
  apiKey: 'the-api-key',
  userSecret: 'the-user-secret',
  endpoint: 'https://api.example',
  wsEndpoint: 'wss://ws.example',
}

describe('a configuration', () => {
  const wrong: [string, unknown, RegExp][] = [
    ['apiKey', undefined, /apiKey is required/],
    ['apiKey', null, /apiKey is required/],
    ['apiKey', 5, /apiKey must be a string, not number/],
    ['apiKey', ' ', /apiKey must not be empty/],
    ['userSecret', undefined, /userSecret is required/],
    ['userSecret', {}, /userSecret must be a string, not object/],
    ['userSecret', '', /userSecret must not be empty/],
    ['renewCredentials', {}, /renewCredentials must be a function, not object/],
    ['endpoint', undefined, /endpoint is required/],
    ['endpoint', 5, /endpoint must be a string/],
    ['endpoint', '', /endpoint must not be empty/],
    ['endpoint', 'api.example', /endpoint must be a URL/],
    ['endpoint', 'wss://api.example', /endpoint must begin with https:\/\/ or http:\/\/, not wss:/],
    ['endpoint', 'https://user:pass@api.example', /endpoint must not hold a user name or password/],
    ['endpoint', 'https://api.example?x=1', /endpoint must not have a query/],
    ['wsEndpoint', undefined, /wsEndpoint is required/],
    [
      'wsEndpoint',
      'https://ws.example',
      /wsEndpoint must begin with wss:\/\/ or ws:\/\/, not https:/,
    ],
    ['wsEndpoint', 'nonsense', /wsEndpoint must be a URL/],
    ['timeout', 0, /timeout must be at least 1, not 0/],
    ['timeout', -1, /timeout must be at least 1/],
    ['timeout', Number.NaN, /timeout must be a number, not NaN/],
    ['timeout', '30', /timeout must be a number, not string/],
    ['timeout', Number.POSITIVE_INFINITY, /timeout must be finite/],
    ['timeout', 3e9, /timeout must be at most/],
    ['retryAttempts', -1, /retryAttempts must be at least 0/],
    ['retryAttempts', 1.5, /retryAttempts must be a whole number/],
    ['retryAttempts', Number.NaN, /retryAttempts must be a number, not NaN/],
    ['retryAttempts', true, /retryAttempts must be a number, not boolean/],
    ['retryDelay', -1, /retryDelay must be at least 0/],
    ['retryDelay', Number.NaN, /retryDelay must be a number, not NaN/],
    ['haMode', 'yes', /haMode must be true or false, not string/],
    ['haConnectionTimeout', 0, /haConnectionTimeout must be at least 1/],
    ['haConnectionTimeout', Number.NaN, /haConnectionTimeout must be a number/],
    ['connectionStatusCallback', 'x', /connectionStatusCallback must be a function, not string/],
    ['logging', 5, /logging takes an object of options, not number/],
    ['logging', { logger: 5 }, /logging\.logger must be an object/],
    ['logging', { logger: { info: 'x' } }, /logging\.logger\.info must be a function/],
    ['logging', { logLevel: 9 }, /logging\.logLevel must be one of LogLevel/],
    ['logging', { logLevel: 'LOUD' }, /logging\.logLevel must be one of LogLevel/],
    [
      'logging',
      { enableConnectionDebug: 1 },
      /logging\.enableConnectionDebug must be true or false/,
    ],
    ['fetch', 1, /fetch must be a function/],
    ['connect', {}, /connect must be a function/],
    ['now', 0, /now must be a function/],
  ]
  test.each(wrong)('with %s: %p is refused by name', (field, value, message) => {
    const config = { ...good, [field]: value } as Config
    expect(() => createClient(config)).toThrow(ValidationError)
    expect(() => createClient(config)).toThrow(message)
  })

  test.each([
    [undefined, 'apiKey is required'],
    [null, 'createClient takes an object of options, not null'],
    ['x', 'createClient takes an object of options, not string'],
  ])('that is %p is refused', (config, message) => {
    expect(() => createClient(config as never)).toThrow(message)
  })

  test('that is whole makes a client, whose inspection shows no secret', () => {
    const client = createClient({
      ...good,
      timeout: 1,
      retryAttempts: 0,
      retryDelay: 0,
      haMode: false,
    })
    const shown = inspect([client, client.createStream(`0x0003${'00'.repeat(30)}`)], {
      depth: 12,
      showHidden: true,
    })
    expect(shown).not.toMatch(/the-api-key|the-user-secret/)
  })

  test('with options of streams, as programs for the official SDK have them, is taken with one warning', () => {
    const warnings: string[] = []
    const logging = { logger: { warn: (line: string) => void warnings.push(line) } }
    const program = { ...good, logging, maxReconnectAttempts: 4, reconnectInterval: 500 }
    const client = createClient(program)
    client.createStream(`0x0003${'00'.repeat(30)}`)
    expect(warnings).toEqual([
      'ignored in a configuration: reconnectInterval, maxReconnectAttempts: give it to createStream',
    ])
    expect(String(client.stack)).toBe(String(createClient(good).stack))
  })

  test('that sluice does not have warns once, and a misspelt one is refused', () => {
    const warnings: string[] = []
    const logger = { warn: (message: string) => warnings.push(message) }
    const key = 'k'.repeat(64)
    const program = { ...good, logging: { logger }, userId: 'me', debug: true, [key]: 1 }
    createClient(program).createStream(`0x0003${'00'.repeat(30)}`)
    expect(warnings).toEqual([
      'ignored in a configuration: userId, debug, kkkkkkkk…: sluice has no such option',
    ])
    for (const misspelt of ['haMdoe', 'retryAttemps', 'wsEndPoint', 'apikey'])
      expect(() => createClient({ ...good, [misspelt]: 1 } as never)).toThrow('did you mean')
    // No other option is meant.
    const others = 'name version test tags node prod time timezone reconnect apiUrl'.split(' ')
    for (const name of others) createClient({ ...good, [name]: 'x' } as never)
    const stack = { endpoint: good.endpoint, wsEndpoint: good.wsEndpoint, plugins: [retry()] }
    expect(() => createClient({ ...stack, userId: 'me' } as never)).toThrow("option 'userId'")
  })

  test.each([
    ['warns once, and connects to the first', {}, ['one.example'], 1],
    ['connects to each with haMode', { haMode: true }, ['one.example', 'two.example'], 0],
  ])('with several URLs %s', async (_name, more, hosts, warned) => {
    const warnings: string[] = []
    const asked: string[] = []
    const client = createClient({
      ...good,
      ...more,
      wsEndpoint: 'wss://one.example, wss://two.example',
      logging: { logger: { warn: (line: string) => void warnings.push(line) } },
      async connect({ url }) {
        asked.push(new URL(url).host)
        throw new Error('nobody is there')
      },
    })
    for (let at = 0; at < 2; at++) {
      const stream = client.createStream(`0x0003${'00'.repeat(30)}`, { maxReconnectAttempts: 0 })
      stream.on('error', () => undefined)
      await stream.connect().catch(() => undefined)
    }
    await client.close()
    expect([...new Set(asked)].sort()).toEqual(hosts)
    const line = 'only the first URL of wsEndpoint is used: set haMode, or add haDiscovery'
    expect(warnings.filter(each => each === line)).toHaveLength(warned)
  })

  test('of a preset beside plugins is refused, since it would have no effect', () => {
    const stack = { endpoint: good.endpoint, wsEndpoint: good.wsEndpoint, plugins: [retry()] }
    expect(() => createClient({ ...stack, retryAttempts: 5 } as never)).toThrow(
      /retryAttempts belongs to the preset/,
    )
    expect(() => createClient({ ...stack, renewCredentials: () => good } as never)).toThrow(
      /renewCredentials belongs to the preset/,
    )
  })
})
