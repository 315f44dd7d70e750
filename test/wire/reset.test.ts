import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Call, GapFilled, Plugin, StreamScope } from '../../client/index.js'
import { createClient, decoders, dedup, haDiscovery, hmacAuth, retry, v3 } from '../../index.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { pause, until } from '../support/waiting.js'

/** More than one URL holds (111): two shards. */
const feeds = Array.from({ length: 120 }, (_, at) => feedID(3, at + 1))
const [first = '', last = ''] = [feeds[0], feeds.at(-1)]

let service: Service
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  service = await startService({ feeds, signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  service.heal()
  await until(() => service.open === 0)
})
afterAll(() => service.close())

/** A stream, its scope once it has connected, those of its calls, and all that came of it. */
function open(feedIDs: string | readonly string[], plugins: readonly Plugin[] = []) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const scopes: StreamScope[] = []
  const calls: Call[] = []
  const look: Plugin = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
    call: next =>
      function keep(call) {
        if (call.kind === 'stream') calls.push(call)
        return next(call)
      },
  }
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [look, decoders(v3), dedup(), ...plugins, retry(), hmacAuth({ apiKey, userSecret })],
  })
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { reconnectInterval: 200 })
  const reports: string[] = []
  const errors: Error[] = []
  const lost: string[] = []
  stream.on('report', report => void reports.push(report.feedID))
  stream.on('error', error => void errors.push(error))
  stream.on('connection-lost', ({ origin }, error) => void lost.push(`${origin} ${error?.message}`))
  return { stream, scopes, calls, reports, errors, lost }
}

const message = 'brings no reports, though the service has some'

describe('connections that are reset', () => {
  test('are opened anew, as if they had failed, and bring reports again', async () => {
    const { stream, scopes, reports, errors, lost } = open(first)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    for (const origin of service.origins) origin.mute()
    service.publish(first)
    await pause(50)
    expect(reports).toEqual([])
    scope.connections.reset([first])
    scope.connections.reset([first])
    await until(() => lost.length > 0)
    await until(() => scope.connections.open === 1)
    service.publish(first)
    await until(() => reports.length === 1)
    const host = new URL(service.wsEndpoint).host
    expect(lost).toEqual([`${service.wsEndpoint} connection lost: ${host} ${message}`])
    const [details] = stream.getConnectionDetails()
    expect(details?.lastError).toMatchObject({ code: 'WS_LOST', isRetryable: true })
    expect(stream.getMetrics()).toMatchObject({ fullReconnects: 1, partialReconnects: 0 })
    expect(errors).toEqual([])
  })

  test('are those of all origins', async () => {
    const { stream, scopes, reports, lost } = open(first, [haDiscovery({ stagger: 5 })])
    await stream.connect()
    const scope = scopes[0] as StreamScope
    await until(() => scope.connections.open === 2)
    scope.connections.reset([first])
    await until(() => lost.length === 2)
    await until(() => scope.connections.open === 2)
    service.publish(first)
    await until(() => reports.length === 1 && stream.getMetrics().deduplicated === 1)
    expect(lost.map(line => line.split(' ')[0]).sort()).toEqual(
      ['001', '002'].map(id => `${service.wsEndpoint}#${id}`),
    )
  })

  test('are those that carry one of the feeds: the others stay open', async () => {
    const { stream, scopes, lost, reports } = open(feeds)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    const states = () => Object.values(stream.getConnectionStates()).join()
    expect(states()).toBe('connected,connected')
    scope.connections.reset([last, feedID(4)])
    await until(() => lost.length > 0)
    expect(states()).toMatch(/^connected,(disconnected|reconnecting)$/)
    expect(scope.connections.uncovered).toContain(last)
    expect(scope.connections.uncovered).not.toContain(first)
    await until(() => states() === 'connected,connected')
    for (const feed of [first, last]) service.publish(feed)
    await until(() => reports.length === 2)
    expect(lost).toHaveLength(1)
  })

  test('are those of the call, where its scope is asked', async () => {
    const { stream, scopes, calls, lost } = open(feeds)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    const [one, other] = calls as [StreamCall, StreamCall]
    expect(one.scope.feedIDs).toContain(first)
    one.scope.connections.reset([last])
    await pause(30)
    expect(lost).toEqual([])
    other.scope.connections.reset(feeds)
    await until(() => lost.length > 0)
    await until(() => scope.connections.open === 2)
    expect(lost).toHaveLength(1)
  })

  test('are open ones: what is connecting, closing, lost or not concerned is left alone', async () => {
    const { stream, scopes, lost, errors } = open(first)
    stream.on('status', ({ type }) => {
      if (type === 'connecting') scopes[0]?.connections.reset([first])
    })
    await stream.connect()
    const scope = scopes[0] as StreamScope
    scope.connections.reset([feedID(4)])
    scope.connections.reset([])
    await pause(30)
    expect(lost).toEqual([])
    for (const origin of service.origins) origin.disconnect('reset')
    await until(() => lost.length === 1)
    scope.connections.reset([first])
    await until(() => scope.connections.open === 1)
    const closing = stream.close()
    scope.connections.reset([first])
    await closing
    expect(service.origins.flatMap(({ pastConnections }) => pastConnections).at(-1)).toMatchObject({
      closed: { code: 1000 },
    })
    expect(lost).toHaveLength(1)
    expect(errors).toEqual([])
  })
})

type StreamCall = Extract<Call, { kind: 'stream' }>

test('a report that came after its gap was announced is told to plugins, then to the user', async () => {
  const { stream, scopes } = open(first)
  const filled: [string, GapFilled][] = []
  stream.on('gap-filled', each => void filled.push(['user', each]))
  await stream.connect()
  const scope = scopes[0] as StreamScope
  scope.events.on('gap-filled', each => void filled.push(['plugin', each]))
  stream.on('report', report => {
    const { observationsTimestamp: time } = report
    const gap = { feedID: first, from: time - 1, to: time, cause: 'upstream' } as const
    scope.events.emit('gap-filled', { gap, report })
  })
  service.publish(first)
  await until(() => filled.length > 0)
  expect(filled.map(([who]) => who)).toEqual(['plugin', 'user'])
  const [, value] = filled[1] as [string, GapFilled]
  expect(value.gap.to).toBe(value.report.observationsTimestamp)
  expect(stream.getMetrics().gaps).toBe(0)
})
