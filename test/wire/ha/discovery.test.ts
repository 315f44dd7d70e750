import { describe, expect, test } from '@jest/globals'
import { createClient, dedup, haDiscovery, hmacAuth, retry } from '../../../index.js'
import { until } from '../../support/waiting.js'
import { closers, ethUsd, names, of, open, own, start } from '../../support/wire/ha.js'

describe('discovery', () => {
  test('opens a connection per origin, and delivers each report once', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const published = Array.from({ length: 50 }, () => engine.publish(ethUsd).observationsTimestamp)
    await until(() => stream.getMetrics().totalReceived === 100)
    expect(seen.times).toEqual(published)
    expect(stream.getMetrics()).toMatchObject({
      accepted: 50,
      deduplicated: 50,
      configuredConnections: 2,
      originStatus: { [of(engine, '001')]: 'connected', [of(engine, '002')]: 'connected' },
      origins: {
        [of(engine, '001')]: { originID: '001', received: 50 },
        [of(engine, '002')]: { originID: '002', received: 50 },
      },
    })
    const { origins } = stream.getMetrics()
    expect(Object.values(origins).reduce((sum, { first }) => sum + first, 0)).toBe(50)
    expect(engine.requests().filter(request => request.method === 'HEAD')).toHaveLength(1)
    expect(seen.errors).toEqual([])
  })

  test('takes several URLs of wsEndpoint as they are', async () => {
    const engine = await start()
    const urls = engine.origins.map(origin => origin.wsEndpoint)
    const { stream, seen } = open(engine, {}, { wsEndpoint: urls.join(', ') })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.publish(ethUsd)
    await until(() => stream.getMetrics().totalReceived === 2)
    expect(seen.times).toHaveLength(1)
    expect(Object.keys(stream.getMetrics().originStatus)).toEqual(urls)
    expect(engine.requests().filter(request => request.method === 'HEAD')).toHaveLength(0)
  })

  test.each([
    ['is refused', { status: 503, times: 4 }],
    ['does not say', { status: 200, body: '', headers: { 'X-Cll-Available-Origins': '{}' } }],
  ])('that %s is one error, and the configured URL is used', async (_name, failure) => {
    const engine = await start({ origins: 1 })
    engine.fail({ method: 'HEAD', ...failure })
    const { stream, seen } = open(engine)
    await stream.connect()
    expect(names(seen.errors)).toEqual(['OriginDiscoveryError'])
    expect(seen.errors[0]?.cause).toBeDefined()
    engine.publish(ethUsd)
    await until(() => seen.times.length === 1)
  })

  test('of one origin only says so and carries on', async () => {
    const engine = await start({ origins: 1 })
    const { stream, seen } = open(engine)
    await stream.connect()
    expect(names(seen.errors)).toEqual(['InsufficientConnectionsError'])
    expect(seen.errors[0]).toMatchObject({ availableConnections: 1, requiredConnections: 2 })
  })

  test('joins an origin that appears and leaves one that goes', async () => {
    const engine = await start({ origins: 3 })
    engine.origins[2]?.leave()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      dedup(),
      haDiscovery({ refreshInterval: 100, stagger: 5 }),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(engine.feeds)
    const left: string[] = []
    stream.on('status', each => void (each.type === 'left' && left.push(String(each.originID))))
    await stream.connect()
    await until(() => Object.keys(stream.getMetrics().originStatus).length === 2)
    engine.origins[2]?.join()
    await until(() => stream.getMetrics().activeConnections === 3)
    engine.origins[0]?.leave()
    await until(() => left.join() === '001')
    await until(() => engine.origins[0]?.connections === 0)
    expect(Object.keys(stream.getMetrics().originStatus)).toEqual([
      of(engine, '002'),
      of(engine, '003'),
    ])
  })
})

describe('the account', () => {
  test('names all connections from the first moment on', async () => {
    const { stream } = open(await start({ origins: 3 }))
    await stream.connect()
    expect(stream.getMetrics()).toMatchObject({ configuredConnections: 3 })
  })

  test('does not grow while the list of origins changes', async () => {
    const engine = await start({ origins: 6 })
    const [a, b, c, d, e, f] = engine.origins
    for (const origin of [c, d, e, f]) origin?.leave()
    const { stream } = await own(engine, { refreshInterval: 50 })
    await stream.connect()
    for (const [leaving, joining] of [
      [
        [a, b],
        [c, d],
      ],
      [
        [c, d],
        [e, f],
      ],
      [
        [e, f],
        [a, b],
      ],
    ] as const) {
      for (const origin of joining) origin?.join()
      for (const origin of leaving) origin?.leave()
      const names = joining.map(origin => of(engine, String(origin?.id))).join()
      await until(() => Object.keys(stream.getMetrics().originStatus).join() === names)
      await until(() => engine.connections === 2)
    }
  })

  test('of an origin that gave up is right, and it is looked for again', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    first?.refuse(403)
    second?.refuse(503)
    const { stream, errors } = await own(
      engine,
      { refreshInterval: 300 },
      { maxReconnectAttempts: 50 },
    )
    const connecting = stream.connect()
    await until(() => stream.getMetrics().originStatus[of(engine, '001')] === 'failed')
    second?.refuse(undefined)
    await connecting
    await until(() => errors.length === 2)
    expect(errors[0]).toMatchObject({
      name: 'PartialConnectionFailureError',
      failedConnections: 1,
      totalConnections: 2,
    })
    expect(errors[1]).toMatchObject({
      name: 'InsufficientConnectionsError',
      availableConnections: 1,
    })
    first?.refuse(undefined)
    await until(() => stream.getMetrics().activeConnections === 2)
    expect(errors).toHaveLength(2)
  })

  test('of an origin that accepts and closes again and again says that it is failing', async () => {
    const engine = await start()
    const { stream, errors } = await own(engine, {})
    stream.on('status', ({ type, ...facts }) => {
      if (type === 'connected' && 'originID' in facts && facts.originID === '001')
        setTimeout(() => engine.origins[0]?.disconnect(1000), 5)
    })
    await stream.connect()
    await until(() => errors.length >= 2)
    expect(names(errors).slice(0, 2)).toEqual([
      'PartialConnectionFailureError',
      'InsufficientConnectionsError',
    ])
  })

  test('of a list that could not be had at first is mended', async () => {
    const engine = await start()
    engine.fail({ method: 'HEAD', status: 500, times: 4 })
    const { stream, errors } = await own(engine, { refreshInterval: 200 })
    await stream.connect()
    expect(names(errors)).toEqual(['OriginDiscoveryError'])
    await until(() => Object.keys(stream.getMetrics().originStatus).length === 2)
    await until(() => stream.getMetrics().activeConnections === 2)
  })
})
