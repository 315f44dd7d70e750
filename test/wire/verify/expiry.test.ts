// A report that claims to be of the present is checked against it. The present is the service's, and not this machine's.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import {
  createClient,
  defaultPreset,
  type Logger,
  type Plugin,
  verifyReport,
} from '../../../index.js'
import { failureOf, until } from '../../support/waiting.js'
import { clientOf, closers, ethUsd, open, start } from '../../support/wire/verify.js'

const DAY = 86_400
const seconds = (): number => Math.floor(Date.now() / 1000)
/** The fields of a report that is genuine, and expired for nineteen days. */
const replayed = (more = 0) => {
  const time = seconds() - 49 * DAY + more
  return {
    observationsTimestamp: time,
    validFromTimestamp: time,
    expiresAt: seconds() - 19 * DAY,
  }
}
const expired = expect.objectContaining({
  reason: 'expired',
  message: expect.stringMatching(/it expired at \d+, and now is \d+$/),
})

/** The platform's fetch, whose answers have no date. */
const fetchUndated = async (...given: Parameters<typeof fetch>): Promise<Response> => {
  const answer = await fetch(...given)
  const headers = new Headers(answer.headers)
  headers.delete('date')
  return new Response(answer.body, { status: answer.status, headers })
}

describe('a replayed report', () => {
  test('is rejected as the latest, and by its stream', async () => {
    const engine = await start()
    const { observationsTimestamp: observed } = engine.publish(ethUsd, replayed())
    const client = clientOf(engine)
    expect(await failureOf(client.getLatestReport(ethUsd))).toEqual(expired)
    const { stream, seen } = await open(engine)
    engine.publish(ethUsd, replayed(1))
    const { observationsTimestamp: now } = engine.publish(ethUsd)
    await until(() => seen.times().includes(now))
    expect(seen.reasons()).toContain('expired')
    expect(Math.min(...seen.times())).toBeGreaterThan(observed + 1)
    expect(stream.getMetrics().verificationFailed).toBeGreaterThan(0)
  })

  test('is a report of its time, of a page and of a bulk', async () => {
    const engine = await start()
    const { observationsTimestamp: observed } = engine.publish(ethUsd, replayed())
    const client = clientOf(engine)
    const reports = [
      await client.getReportByTimestamp(ethUsd, observed),
      ...(await client.getReportsPage(ethUsd, observed, 1)),
      ...(await client.getReportsBulk([ethUsd], observed)),
      await client.getReportAt(ethUsd, observed),
    ]
    expect(reports.map(({ verified }) => verified)).toEqual([true, true, true, true])
  })

  test('is told by report.verify() on demand, of the latest report alone', async () => {
    const engine = await start()
    const { observationsTimestamp: observed } = engine.publish(ethUsd, replayed())
    const client = clientOf(engine, { mode: 'on-demand' })
    const latest = await client.getLatestReport(ethUsd)
    expect(await failureOf(latest.verify())).toEqual(expired)
    expect(latest.verified).toBe(false)
    await (await client.getReportByTimestamp(ethUsd, observed)).verify()
  })

  test('is told of each copy and proxy of it, too', async () => {
    const engine = await start()
    engine.publish(ethUsd, replayed())
    const latest = await clientOf(engine, { mode: 'on-demand' }).getLatestReport(ethUsd)
    const prototype = Object.getPrototypeOf(latest)
    const copies = [
      new Proxy(latest, {}),
      Object.create(latest),
      Object.assign(Object.create(prototype), latest),
    ]
    for (const copy of copies) expect(await failureOf(copy.verify())).toEqual(expired)
    expect([latest, ...copies].map(({ verified }) => verified)).toEqual([
      false,
      false,
      false,
      false,
    ])
  })

  test('does not come back as the newest when the stream fetches what it has missed', async () => {
    const engine = await start()
    const { stream, seen } = await open(engine)
    const time = seconds()
    const times = (at: number) => ({ validFromTimestamp: at, observationsTimestamp: at })
    engine.publish(ethUsd, { ...times(time - 4), expiresAt: time + DAY })
    await until(() => seen.reports.length === 1)
    engine.publish(ethUsd, { ...times(time - 3), expiresAt: time - 8 })
    await until(() => seen.refused.length === 1)
    engine.publish(ethUsd, { ...times(time - 1), expiresAt: time + DAY })
    await until(() => seen.times().includes(time - 1))
    await until(() => seen.refused.length > 1)
    expect(seen.times()).toEqual([time - 4, time - 1])
    expect(new Set(seen.reasons())).toEqual(new Set(['expired']))
    expect(stream.latest(ethUsd)?.observationsTimestamp).toBe(time - 1)
  })

  test('is delivered where the option says so, and by verifyReport, which knows no present', async () => {
    const engine = await start()
    const { fullReport } = engine.publish(ethUsd, replayed())
    const client = clientOf(engine, { checkExpiry: false })
    expect(await client.getLatestReport(ethUsd)).toMatchObject({ verified: true })
    const signers = engine.network
    await verifyReport(fullReport, { signers })
    expect(await failureOf(verifyReport(fullReport, { signers, checkExpiry: true }))).toEqual(
      expired,
    )
  })

  test('is rejected in history, too, with checkExpiry: true', async () => {
    const engine = await start()
    const { observationsTimestamp: observed } = engine.publish(ethUsd, replayed())
    const client = clientOf(engine, { checkExpiry: true })
    expect(await failureOf(client.getReportByTimestamp(ethUsd, observed))).toEqual(expired)
  })
})

test('five seconds after its expiry, or beyond its highest age, a report is rejected', async () => {
  const engine = await start()
  const present = seconds() * 1000
  const at = async (now: number, options: object): Promise<string> => {
    const client = clientOf(engine, { now: () => now, ...options })
    const failure = client.getLatestReport(ethUsd).then(
      () => 'delivered',
      ({ reason }: { reason: string }) => reason,
    )
    return failure
  }
  engine.publish(ethUsd, {
    observationsTimestamp: present / 1000 - 60,
    validFromTimestamp: present / 1000 - 60,
    expiresAt: present / 1000,
  })
  expect(await at(present + 5999, {})).toBe('delivered')
  expect(await at(present + 6000, {})).toBe('expired')
  expect(await at(present - 25_000, { maxAge: 30_000 })).toBe('delivered')
  expect(await at(present - 24_999, { maxAge: 30_000 })).toBe('too-old')
  expect(await at(present + 6000, { maxAge: 30_000, checkExpiry: false })).toBe('too-old')
  expect(await at(present + 6000, { checkExpiry: false })).toBe('delivered')
})

describe('a machine whose clock is wrong', () => {
  /** Its requests are signed by a clock that is right. */
  function wrongBy(days: number, engine: DataEngine, more = {}, logger = { warn() {} } as Logger) {
    const { apiKey, userSecret, endpoint, wsEndpoint, network: signers } = engine
    const plugins = defaultPreset({
      ...{ apiKey, userSecret, logging: { logger } },
      verify: { signers, workers: 0, maxAge: 60_000 },
    })
    const now = (): number => Date.now() + days * DAY * 1000
    const client = createClient({ endpoint, wsEndpoint, plugins, now, ...more })
    closers.push(client.close)
    return client
  }

  test.each([400, -400])('by %d days rejects by the service’s date alone', async days => {
    const engine = await start()
    const { observationsTimestamp: observed } = engine.publish(ethUsd)
    const other = engine.publish(ethUsd, replayed())
    const client = wrongBy(days, engine)
    const page = await client.getReportsPage(ethUsd, observed, 1)
    expect(page).toHaveLength(1)
    expect(other.observationsTimestamp).toBeLessThan(observed)
    expect(await client.getLatestReport(ethUsd)).toMatchObject({ observationsTimestamp: observed })
  })

  test('is not misled by the dates of other hosts', async () => {
    const engine = await start()
    engine.publish(ethUsd, replayed())
    const other = createServer((_request, response) => {
      response.setHeader('date', new Date(Date.now() - 60 * DAY * 1000).toUTCString())
      response.end()
    })
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
    closers.push(() => other.close())
    const { port } = other.address() as AddressInfo
    const { apiKey, userSecret, endpoint, wsEndpoint, network: signers } = engine
    const hook: Plugin = {
      name: 'hook',
      report: (next, scope) => {
        const facts = { operation: 'hook', headers: new Headers(), signal: scope.signal }
        scope.waitUntil(
          scope.client.request('GET', `http://127.0.0.1:${port}/`, facts),
          undefined as never,
        )
        return next
      },
    }
    const preset = defaultPreset({ apiKey, userSecret, verify: { signers, workers: 0 } })
    const client = createClient({ endpoint, wsEndpoint, plugins: [hook, ...preset] })
    closers.push(client.close)
    await client.getReportsPage(ethUsd, seconds() - 50 * DAY, 1)
    expect(await failureOf(client.getLatestReport(ethUsd))).toEqual(expired)
  })

  test('rejects nothing while no answer has a date, and warns once', async () => {
    const engine = await start()
    engine.publish(ethUsd)
    const warnings: string[] = []
    const logger = { warn: (line: string) => void warnings.push(line) }
    const client = wrongBy(400, engine, { fetch: fetchUndated }, logger)
    for (let times = 0; times < 3; times++)
      expect(await client.getLatestReport(ethUsd)).toMatchObject({ verified: true })
    const old = warnings.filter(line => /no answer of the service had a Date/.test(line))
    expect(old).toHaveLength(1)
    expect(old[0]).toMatch(
      /it expired at \d+, and now is \d+ by this machine's clock\. It is delivered/,
    )
  })
})

test('a client that lives in another time goes by its clock', async () => {
  const engine = await start()
  const { observationsTimestamp: observed } = engine.publish(ethUsd, replayed())
  const then = { ...globalThis, Date: { now: () => observed * 1000 + 2000 } }
  const clock = { setTimeout, clearTimeout, Date: then.Date }
  const client = clientOf(engine, { maxAge: 60_000 }, { clock })
  expect(await client.getLatestReport(ethUsd)).toMatchObject({ verified: true })
})
