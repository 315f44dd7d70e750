import { afterEach, expect, test } from '@jest/globals'
import type { StreamScope } from '../../client/index.js'
import { createClient, defaultPreset, type Plugin, type StreamOptions } from '../../index.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { pause, until } from '../support/waiting.js'

const feed = feedID(3, 1, { milliseconds: true })
const other = feedID(3, 2, { milliseconds: true })
const HOUR = 3_600_000

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function start(now: () => number = Date.now): Promise<Service> {
  const service = await startService({ feeds: [feed, other], signatures: 'dummy', now })
  closers.push(() => service.close())
  return service
}

/** A stream whose reports are taken at once, without `continuity` unless it is asked for, and its scope once it has connected. */
function open(service: Service, options: StreamOptions = {}, hasContinuity = false) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const scopes: StreamScope[] = []
  const look: Plugin = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
  }
  const preset = defaultPreset({ apiKey, userSecret, retryDelay: 5 })
  const plugins = [look, ...preset.filter(({ name }) => hasContinuity || name !== 'continuity')]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const cursors = memoryCursors()
  const stream = client.createStream(feed, {
    cursors,
    saveInterval: 0,
    reconnectInterval: 200,
    maxReconnectAttempts: 1,
    ...options,
  })
  const times: number[] = []
  stream.on('error', () => undefined)
  stream.on('report', report => void times.push(report.observationsTimestamp))
  const saved = () => cursors.saved[feed]
  return { stream, scopes, times, cursors, saved }
}

test('a cursor that the present has not reached has nothing asked for until a report comes', async () => {
  const service = await start()
  const { stream, cursors, saved } = open(service, { staleAfter: 500 }, true)
  cursors.saved = { [feed]: Date.now() + HOUR }
  await stream.connect()
  await pause(3000)
  expect(service.requestsTo('/api/v1/reports/page')).toEqual([])
  const { observed } = service.publish(feed)
  // What came before it is asked for, the last time after ten seconds.
  await until(() => saved() === observed)
  expect(service.requestsTo('/api/v1/reports/page').length).toBeGreaterThan(0)
})
