import { afterEach, expect, test } from '@jest/globals'
import type { Clock } from '../../core/clock.js'
import { createClient, defaultPreset, type Plugin, type StreamScope } from '../../index.js'
import { feedID, startService } from '../support/service/service.js'
import { pause, until } from '../support/waiting.js'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** A clock a year ago that runs sixty times as fast. `delays` are those that its timers were given, in its milliseconds. */
function pastClock(): Clock & { readonly timers: number; readonly delays: readonly number[] } {
  const begin = performance.now()
  const start = Date.now() - 365 * 86_400_000
  const running = new Set<unknown>()
  const delays: number[] = []
  return {
    delays,
    Date: { now: () => start + 60 * (performance.now() - begin) },
    setTimeout(run, ms) {
      delays.push(ms)
      const timer = setTimeout(() => {
        running.delete(timer)
        run()
      }, ms / 60)
      running.add(timer)
      return timer
    },
    clearTimeout(timer) {
      running.delete(timer)
      clearTimeout(timer as NodeJS.Timeout)
    },
    get timers() {
      return running.size
    },
  }
}

test('a client lives in the present of its clock, which nothing corrects', async () => {
  const clock = pastClock()
  const feed = feedID(3, 1, { milliseconds: true })
  const service = await startService({ feeds: [feed], signatures: 'dummy' })
  closers.push(() => service.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const scopes: StreamScope[] = []
  const look: Plugin = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
  }
  const plugins = [look, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
  const client = createClient({ endpoint, wsEndpoint, clock, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(feed, { staleAfter: 3000 })
  const times: number[] = []
  const stale: number[] = []
  stream.on('report', report => void times.push(report.observationsTimestamp))
  stream.on('status', ({ type }) => void (type === 'stale' && stale.push(clock.Date.now())))
  await stream.connect()
  // Each answer of the service has a date of today.
  await client.listFeeds()
  const [scope] = scopes
  const before = clock.Date.now()
  const now = (scope as StreamScope).client.now()
  expect([before <= now, now <= clock.Date.now()]).toEqual([true, true])
  const at = Math.floor(clock.Date.now())
  service.publish(feed, { observed: at, validFrom: at })
  await until(() => times.length === 1)
  expect(stream.latest(feed)?.isNewest).toBe(true)
  expect(stream.getMetrics()).toMatchObject({ ahead: 0, clockOffsetMs: 0 })
  // Three seconds of that clock, in eight parts, are fifty milliseconds.
  await until(() => stale.length === 1)
  expect((stale[0] as number) - at).toBeGreaterThanOrEqual(3000)
  expect(clock.delays.filter(ms => ms === 3000 / 8).length).toBeGreaterThanOrEqual(8)
  await client.close()
  await pause(20)
  expect(clock.timers).toBe(0)
})

test('getReportAt waits by the clock, and a request holds it', async () => {
  const clock = pastClock()
  const holds: string[] = []
  let held = 0
  const holding = {
    ...{ Date: clock.Date, setTimeout: clock.setTimeout, clearTimeout: clock.clearTimeout },
    hold() {
      held++
      return () => void held--
    },
  }
  const feed = feedID(3, 1, { milliseconds: true })
  const service = await startService({ feeds: [feed], signatures: 'dummy' })
  closers.push(() => service.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const note: Plugin<never> = {
    name: 'note',
    attempt: next => call => {
      holds.push(`${call.operation} ${held}`)
      return next(call)
    },
  }
  const plugins = [note, ...defaultPreset({ apiKey, userSecret, retryDelay: 5 })]
  const client = createClient({ endpoint, wsEndpoint, clock: holding, plugins })
  closers.push(() => client.close())
  const time = Math.floor(clock.Date.now()) + 20_000
  service.publish(feed, { observed: time, validFrom: time })
  const begun = performance.now()
  // Twenty seconds of that clock, and the second until a report is there, are 350 ms.
  const report = await client.getReportAt(feed, time, { wait: true })
  expect(report.observationsTimestamp).toBe(time)
  const took = performance.now() - begun
  expect(took).toBeGreaterThan(300)
  expect(clock.delays.filter(ms => ms > 19_000 && ms <= 21_000)).toHaveLength(1)
  await client.listFeeds()
  expect(holds).toEqual(['getReportsPage 1', 'listFeeds 1'])
  expect(held).toBe(0)
})

test.each([
  [{ clock: {} }, /clock.setTimeout must be a function/],
  [{ clock: { setTimeout() {}, clearTimeout() {} } }, /clock.Date.now must be a function/],
  [{ clock: globalThis, now: Date.now }, /now must not be given with clock/],
])('checks the clock: %j', (options, message) => {
  const urls = { endpoint: 'http://127.0.0.1:1', wsEndpoint: 'ws://127.0.0.1:1' }
  expect(() =>
    createClient({ ...urls, apiKey: 'k', userSecret: 's', ...options } as never),
  ).toThrow(message)
})
