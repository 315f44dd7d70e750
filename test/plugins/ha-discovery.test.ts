import { describe, expect, test } from '@jest/globals'
import { type ClientOptions, createClient, endpoints } from '../../index.js'
import { haDiscovery, parseOrigins } from '../../plugins/ha-discovery/index.js'

/** A wire on which every connection opens and nothing arrives. */
const openAtOnce: ClientOptions['connect'] = async (_target, events) => {
  setImmediate(() => events.opened())
  return {
    ping: () => undefined,
    close: () => events.ended(1000, undefined),
    terminate: () => events.ended(1006, undefined),
  }
}

describe('the header X-Cll-Available-Origins', () => {
  test.each([
    ['{001,002}', ['001', '002']],
    ['001,002', ['001', '002']],
    [' { 001 , 002 } ', ['001', '002']],
    ['001', ['001']],
    ['{001,001,002}', ['001', '002']],
    ['{001,,002,}', ['001', '002']],
    ['{001,bad id,0\r\nX-Injected: 1,002}', ['001', '002']],
    [`{001,${'x'.repeat(65)}}`, ['001']],
    ['{eu-1.a_b}', ['eu-1.a_b']],
  ])('%j names %j', (header, origins) => {
    expect(parseOrigins(header)).toEqual(origins)
  })

  test('names sixteen origins at most, however long it is', () => {
    expect(
      parseOrigins(Array.from({ length: 1_000_000 }, (_, index) => index).join(',')),
    ).toHaveLength(16)
  })

  test.each([[null], [''], ['{}'], ['{ , }'], ['ä,ö']])(
    'that is %j names none, which is an error',
    header => {
      expect(() => parseOrigins(header)).toThrow(/X-Cll-Available-Origins/)
    },
  )
})

test('on the testnet, which has one origin, the error says that high availability exists on mainnet only', async () => {
  const client = createClient({
    apiKey: 'key',
    userSecret: 'secret',
    ...endpoints.testnet,
    haMode: true,
    fetch: async () => new Response(null, { headers: { 'X-Cll-Available-Origins': '{001}' } }),
    connect: openAtOnce,
  })
  const stream = client.createStream(`0x0003${'ab'.repeat(30)}`)
  const errors: Error[] = []
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  expect(errors.map(error => error.name)).toEqual(['InsufficientConnectionsError'])
  expect(errors[0]?.message).toMatch(/high availability exists on mainnet only/)
  await client.close()
})

test('a credential that the service repeats is not used as an origin', async () => {
  const client = createClient({
    apiKey: 'the-api-key-0123456789',
    userSecret: 'secret',
    ...endpoints.mainnet,
    haMode: true,
    fetch: async (input, init) => {
      const { headers } = new Request(input, init)
      const echo = `{${headers.get('authorization')},${headers.get('x-authorization-signature-sha256')}}`
      return new Response(null, { headers: { 'X-Cll-Available-Origins': echo } })
    },
    connect: openAtOnce,
  })
  const stream = client.createStream(`0x0003${'ab'.repeat(30)}`)
  const errors: Error[] = []
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  expect(errors.map(error => error.name)).toEqual(['OriginDiscoveryError'])
  expect(JSON.stringify([errors[0]?.message, stream.getMetrics()])).not.toMatch(
    /the-api-key|[0-9a-f]{64}/,
  )
  await client.close()
})

test('a discovery that ignores its signal does not keep connect waiting', async () => {
  const client = createClient({
    apiKey: 'key',
    userSecret: 'secret',
    ...endpoints.mainnet,
    haMode: true,
    haConnectionTimeout: 100,
    fetch: () => new Promise(() => undefined),
    connect: openAtOnce,
  })
  await client.createStream(`0x0003${'ab'.repeat(30)}`).connect()
  await client.close()
})

test.each([
  ['connectTimeout', 0],
  ['refreshInterval', Number.NaN],
  ['stagger', -1],
])('the option %s: %p is rejected by name', (option, value) => {
  expect(() => haDiscovery({ [option]: value })).toThrow(new RegExp(option))
})
