import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { hashOf, openRaw, request, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import { bearerAuth } from 'sluice/plugins/bearer-auth'
import { createGateway, type GatewayOptions } from '../../gateway/index.js'

const latest = `/api/v1/reports/latest?feedID=${feed(1)}`
const page = 'https://app.example'
const inSeconds = `0x0003${'5'.repeat(60)}`

/** A world whose log has a report of two feeds. */
async function startFilled(): Promise<LogWorld> {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  for (const index of [1, 2]) engine.publish(feed(index))
  await until(() => relay.getMetrics().stored === 2)
  return world
}

const statusOf = async (sent: Promise<Response>): Promise<string> => {
  const answer = await sent
  const { message } = (await answer.json()) as { readonly message?: string }
  return message === undefined ? String(answer.status) : `${answer.status} ${message}`
}

describe('a gateway', () => {
  test('wants a token that it knows, and logs none', async () => {
    const world = await startFilled()
    const lines: string[] = []
    const write = (message: string, facts?: object): void =>
      void lines.push(message + JSON.stringify(facts))
    const log = { debug: write, info: write, warn: write, error: write }
    const gateway = await startGateway(world, { log })
    const feeds = [feed(1)]
    const other = `${token.slice(0, -1)}x`
    await openRaw(gateway, feeds)
    await expect(openRaw(gateway, feeds, { token: other })).rejects.toThrow(
      '401 the token is unknown, or has expired',
    )
    await expect(openRaw(gateway, feeds, { token: '' })).rejects.toThrow('401')
    const authorization = (value: string) => ({ authorization: value })
    expect(await statusOf(request(gateway, latest))).toBe('200')
    expect(await statusOf(request(gateway, latest, authorization(`bearer ${token}`)))).toBe('200')
    expect(await statusOf(fetch(`${gateway.url}${latest}`))).toBe('401 a token is needed')
    for (const value of [`Bearer ${other}`, 'Bearer ', `Basic ${token}`, token, 'Bearer dashboard'])
      expect(await statusOf(request(gateway, latest, authorization(value)))).toMatch(/^401/)
    // What is logged is read by others: a token in the URL counts for nothing.
    expect(await statusOf(fetch(`${gateway.url}${latest}&token=${token}`))).toMatch(/^401/)
    expect(gateway.getMetrics()).toMatchObject({ connections: 1, rejected: 9 })
    expect(lines.filter(line => line.startsWith('rejected with 401'))).toHaveLength(9)
    expect(lines.join('\n')).not.toContain(token.slice(0, 10))
    expect(lines.join('\n')).not.toContain(hashOf(token))
  })

  test('reads its file of tokens again, and closes the streams of those that are gone', async () => {
    const world = await startFilled()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tokens-'))
    closers.push(() => rmSync(folder, { recursive: true }))
    const tokens = join(folder, 'tokens.json')
    const write = (content: object): void => writeFileSync(tokens, JSON.stringify(content))
    const soon = new Date(Date.now() + 2500).toISOString()
    const good = { sha256: hashOf(token) }
    write({ one: good, two: { sha256: hashOf('second'), expires: soon } })
    const lines: string[] = []
    const log = {
      info: (line: string) => lines.push(line),
      error: (line: string) => lines.push(line),
    }
    const gateway = await startGateway(world, { tokens, log })
    const one = await openRaw(gateway, [feed(1)])
    const two = await openRaw(gateway, [feed(1)], { token: 'second' })
    expect(await two.closed).toBe('4401 the token was removed, or has expired')
    await expect(openRaw(gateway, [feed(1)], { token: 'second' })).rejects.toThrow('401')
    // What can't be read changes nothing.
    writeFileSync(tokens, '{ "one"')
    await until(() => lines.some(line => line.includes('is not JSON')))
    expect(one.socket.readyState).toBe(one.socket.OPEN)
    write({ three: { sha256: hashOf('third') } })
    expect(await one.closed).toBe('4401 the token was removed, or has expired')
    expect(await statusOf(request(gateway, latest))).toMatch(/^401/)
    await openRaw(gateway, [feed(1)], { token: 'third' })
    expect(lines).toContain('a connection of one is closed: the token was removed, or has expired')
  })

  test('allows the pages of the origins that it was given, and what is no page', async () => {
    const gateway = await startGateway(await startFilled(), { origins: [page] })
    await openRaw(gateway, [feed(1)], { origin: page })
    await openRaw(gateway, [feed(1)])
    const wrong = 'https://evil.example'
    await expect(openRaw(gateway, [feed(1)], { origin: wrong })).rejects.toThrow(
      '403 pages of this origin are not allowed',
    )
    const answer = await request(gateway, latest, { origin: page })
    expect(answer.headers.get('access-control-allow-origin')).toBe(page)
    expect(answer.headers.get('vary')).toBe('origin')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const rejected = await request(gateway, latest, { origin: wrong })
    expect(rejected.status).toBe(403)
    expect(rejected.headers.get('access-control-allow-origin')).toBeNull()
    // A page may read why it was rejected.
    const unauthorised = await request(gateway, latest, { origin: page, authorization: 'no' })
    expect(unauthorised.status).toBe(401)
    expect(unauthorised.headers.get('access-control-allow-origin')).toBe(page)
    const preflight = await fetch(`${gateway.url}${latest}`, {
      method: 'OPTIONS',
      headers: { origin: page, 'access-control-request-headers': 'authorization' },
    })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-headers')).toContain('authorization')
  })

  test('bounds what a token may have', async () => {
    const limits = { connections: 3, connectionsPerToken: 2, feedsPerConnection: 2 }
    const gateway = await startGateway(await startFilled(), {
      limits,
      tokens: { one: { sha256: hashOf(token) }, two: { sha256: hashOf('second') } },
    })
    const first = await openRaw(gateway, [feed(1)])
    await openRaw(gateway, [feed(1)])
    await expect(openRaw(gateway, [feed(1)])).rejects.toThrow(
      '429 the token has 2 connections already',
    )
    await openRaw(gateway, [feed(1)], { token: 'second' })
    await expect(openRaw(gateway, [feed(1)], { token: 'second' })).rejects.toThrow(
      '429 there are too many connections',
    )
    first.socket.close()
    await until(() => gateway.getMetrics().connections === 2)
    await openRaw(gateway, [feed(1), feed(2)])
    await expect(openRaw(gateway, [feed(1), feed(2), feed(3)])).rejects.toThrow(
      '400 feedIDs must be at most 2, not 3',
    )
    const one = await startGateway(await startFilled(), { limits: { requestsPerToken: 1 } })
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => (await request(one, latest)).status),
    )
    expect(statuses).toContain(200)
    expect(statuses).toContain(429)
    expect(await statusOf(request(one, latest))).toBe('200')
  })

  test('says which feed is not in the log, and takes one that comes later', async () => {
    const world = await startFilled()
    const gateway = await startGateway(world)
    const unknown = feed(7)
    await expect(openRaw(gateway, [feed(1), unknown])).rejects.toThrow(
      `404 not in the log: ${unknown}`,
    )
    const { url: endpoint, wsURL: wsEndpoint } = gateway
    const client = createClient({ endpoint, wsEndpoint, plugins: [bearerAuth({ token })] })
    closers.push(() => client.close())
    const error = await failureOf(client.createStream(unknown).connect())
    expect(error).toMatchObject({ code: 'WS_REFUSED', statusCode: 404 })
    expect(error.message).toContain(`not in the log: ${unknown}`)
    ;(await world.connect()).publish(`sluice.3.${unknown}`, '{}')
    let stream: unknown
    while (stream === undefined)
      stream = await openRaw(gateway, [feed(1), unknown]).catch(() => undefined)
  }, 30_000)

  test('checks what is asked, and answers in the form of the service', async () => {
    const gateway = await startGateway(await startFilled())
    const cases: readonly (readonly [string, string])[] = [
      ['/api/v1/feeds', '200'],
      [latest, '200'],
      [`/api/v1/reports?feedID=${feed(1)}&timestamp=1e3`, '400 timestamp must be a whole number'],
      [`/api/v1/reports?feedID=${feed(1)}`, '400 timestamp must be a whole number'],
      [`/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=1`, '200'],
      [`/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=1&limit=-1`, '400 limit must be'],
      ['/api/v1/reports/latest?feedID=0x12', '400 feedID must be 0x and 64 hexadecimal digits'],
      [`/api/v1/reports/latest?feedID=${feed(9)}`, '404 the log has no such report'],
      [`/api/v1/reports/bulk?feedIDs=x&timestamp=1`, '400 feedIDs[0] must be'],
      [
        `/api/v1/reports?feedID=${inSeconds}&timestamp=1795000000000`,
        `400 timestamp must be in seconds for feed ${inSeconds}, not 1795000000000`,
      ],
      [
        `/api/v1/reports/bulk?feedIDs=${feed(1)},${inSeconds}&timestamp=999999999999999`,
        '400 timestamp must be in seconds',
      ],
      [
        `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=1795000000`,
        `400 startTimestamp must be in milliseconds for feed ${feed(1)}, not 1795000000`,
      ],
      ['/api/v2/feeds', '404 there is no such route'],
      ['/', '404 there is no such route'],
    ]
    for (const [path, expected] of cases)
      expect(`${path} ${await statusOf(request(gateway, path))}`).toContain(`${path} ${expected}`)
    const posted = await fetch(`${gateway.url}${latest}`, { method: 'POST', body: 'x' })
    expect(posted.status).toBe(405)
    const time = await fetch(`${gateway.url}/`, { method: 'HEAD' })
    expect([time.status, Date.parse(time.headers.get('date') ?? '')]).toEqual([
      204,
      expect.any(Number),
    ])
    expect((await fetch(`${gateway.url}${latest}`, { method: 'HEAD' })).status).toBe(405)
    const health = await fetch(`${gateway.url}/health`)
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }])
  })
})

test('options that are wrong are named', async () => {
  const world = await startFilled()
  const connection = await world.connect()
  const cases: readonly (readonly [object, string])[] = [
    [{ tokens: { a: { sha256: token } } }, 'tokens.a.sha256 must be 64 hexadecimal digits'],
    [{ tokens: { 'a b': {} } }, 'tokens: each name must be'],
    [{ tokens: { a: { sha256: hashOf(''), expires: 'soon' } } }, 'tokens.a.expires must be a time'],
    [{ tokens: '/nowhere/tokens.json' }, "/nowhere/tokens.json can't be read: ENOENT"],
    [{ origins: ['https://app.example/'] }, 'origins[0] must be an origin such as'],
    [{ limits: { connections: 0 } }, 'limits.connections must be at least 1, not 0'],
    [{ port: 70_000 }, 'port must be at most 65535'],
    [{ tls: { cert: 'x', key: 'y' } }, 'tls.cert must be in PEM'],
    [{ host: '203.0.113.1' }, "host 203.0.113.1 can't be listened on: EADDRNOTAVAIL"],
    [{ tokens: undefined }, 'tokens, jwt or authorize must be given'],
    [{ authorize: 'a' }, 'authorize must be a function'],
    [{ connection: {} }, 'connection must be a connection of NATS'],
    [{ stream: 'OTHER' }, 'stream OTHER does not exist'],
  ]
  for (const [options, message] of cases) {
    const given = { connection, tokens: {}, ...options } as GatewayOptions
    expect((await failureOf(createGateway(given))).message).toContain(message)
  }
  expect(
    (await failureOf(createGateway({ connection, tokens: {}, stream: 'X' }))).message,
  ).not.toContain(token)
})
