import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { register as defaultRegister, Gauge, Registry } from 'prom-client'
import type { StreamScope } from '../../../client/contract/scope.js'
import { createCounters } from '../../../client/metrics.js'
import {
  type Client,
  createClient,
  defaultPreset,
  defineDecoder,
  type Plugin,
  ValidationError,
} from '../../../index.js'
import { opentelemetry } from '../../../plugins/opentelemetry/index.js'
import { prometheus } from '../../../plugins/prometheus.js'
import { labelName, metrics, prometheusName } from '../../../plugins/telemetry/index.js'
import { addCounts, createBounds, Sums, sampleAges } from '../../../plugins/telemetry/measures.js'
import type { Report } from '../../../report/report.js'
import { closeAfterEach } from '../../support/closing.js'
import {
  exportedValues,
  scrape,
  scrapedValues,
  startMeters,
  sumOf,
} from '../../support/plugins/telemetry.js'
import { until } from '../../support/waiting.js'

const feedID = `0x1003${'ab'.repeat(30)}`
const closers = closeAfterEach()

async function startEngine(): Promise<DataEngine> {
  const engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  closers.push(() => engine.close())
  return engine
}

function open(engine: DataEngine, plugins: readonly Plugin[], options: object = {}): Client {
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const preset = defaultPreset({ apiKey, userSecret, ...options })
  const client = createClient({ endpoint, wsEndpoint, plugins: [...plugins, ...preset] })
  closers.push(() => client.close())
  return client
}

describe('the table of metrics', () => {
  test('has a name, a unit and a meaning for each, and no name twice, for Prometheus neither', () => {
    for (const { name, unit, description, kind, bounds } of metrics) {
      expect(name).toMatch(/^[a-z]+(\.[a-z_]+)+$/)
      expect(unit).toMatch(/^(s|d|\{[a-z]+\})$/)
      expect(description).toMatch(/^[A-Z].*[^.]$/)
      expect(bounds !== undefined).toBe(kind === 'histogram')
    }
    for (const nameOf of [({ name }: { name: string }) => name, prometheusName]) {
      const names = (metrics as readonly (typeof metrics)[number][]).map(nameOf)
      expect(new Set(names).size).toBe(names.length)
    }
  })

  test('names them for Prometheus as exporters of OpenTelemetry do', () => {
    const shown = metrics.map(prometheusName)
    expect(shown).toContain('sluice_reports_received_total')
    expect(shown).toContain('sluice_origin_round_trip_seconds')
    expect(shown).toContain('sluice_queue_depth')
    expect(shown).toContain('http_client_request_duration_seconds')
    expect(labelName('http.response.status_code')).toBe('http_response_status_code')
  })
})

describe('reports that are wrong', () => {
  test('are counted where they can not be decoded, and where they are not signed as they should be', async () => {
    const engine = await startEngine()
    const register = new Registry()
    const broken = defineDecoder({ version: 3, fields: { price: 'string' } })
    const plugins = [prometheus({ register }), { name: 'broken', decoders: [broken] }]
    const { signers, f } = engine.network
    const client = open(engine, plugins, { verify: { signers: { signers, f } } })
    const stream = client.createStream(feedID)
    const reports: { decoded: unknown }[] = []
    stream.on('report', report => void reports.push(report))
    stream.on('error', () => undefined)
    await stream.connect()
    engine.publish(feedID)
    engine.publish(feedID, {}, { forged: 'value', stored: false })
    await until(() => stream.getMetrics().verificationFailed === 1 && reports.length === 1)
    expect(() => reports[0]?.decoded).toThrow('feed')
    const values = scrapedValues(await scrape(register))
    expect(sumOf(values, 'sluice_decoding_failures_total')).toBe(1)
    expect(sumOf(values, 'sluice_verification_failures_total')).toBe(1)
    expect(sumOf(values, 'sluice_reports_verified_total')).toBe(1)
    expect(sumOf(values, 'sluice_errors_total', 'VERIFICATION')).toBe(1)
  })
})

describe('ids of feeds', () => {
  test.each([false, true])('are attributes where they are asked for: %s', async feedIDs => {
    const engine = await startEngine()
    const register = new Registry()
    const meters = startMeters()
    closers.push(() => meters.close())
    const client = open(engine, [
      prometheus({ register, feedIDs }),
      opentelemetry({ meterProvider: meters.provider, feedIDs }),
    ])
    const stream = client.createStream(feedID)
    stream.on('report', () => undefined)
    await stream.connect()
    for (let at = 0; at < 3; at++) engine.publish(feedID)
    await until(() => stream.getMetrics().accepted === 3)
    const page = await scrape(register)
    expect(page.includes(feedID)).toBe(feedIDs)
    for (const values of [scrapedValues(page), exportedValues(await meters.collect())]) {
      expect(sumOf(values, 'sluice_feed_reports_total')).toBe(feedIDs ? 3 : 0)
      expect(sumOf(values, 'sluice_report_age_seconds_count')).toBe(3)
    }
  })

  test('and other values are bounded in number', () => {
    const bound = createBounds()
    const valuesOf = (name: string) =>
      new Set(Array.from({ length: 3000 }, (_, index) => bound({ [name]: `v${index}` })[name]))
    expect(valuesOf('error.type').size).toBe(101)
    expect(valuesOf('sluice.feed.id').size).toBe(1001)
    expect(bound({ 'error.type': 'v1' })).toEqual({ 'error.type': 'v1' })
    expect(bound({ 'error.type': 'v2000' })).toEqual({ 'error.type': '_OTHER' })
  })

  test('origins among them', () => {
    const sums = new Sums(createBounds())
    const traffic = { received: 1, first: 0, outOfOrder: 0, verified: 0, verificationFailed: 0 }
    const origins = Object.fromEntries(Array.from({ length: 130 }, (_, at) => [`o${at}`, traffic]))
    for (let times = 0; times < 2; times++)
      addCounts(sums, { ...createCounters(), undecoded: 0, origins, streams: [] })
    const received = [...sums.all].filter(({ metric }) => metric === 'sluice.reports.received')
    expect(received).toHaveLength(101)
    expect(received.at(-1)).toMatchObject({ attributes: { 'sluice.origin': '_OTHER' }, value: 60 })
  })
})

test('the state of a stream that has ended is none, while its client is open and after', async () => {
  const engine = await startEngine()
  const register = new Registry()
  const meters = startMeters()
  closers.push(() => meters.close())
  const client = open(engine, [
    prometheus({ register }),
    opentelemetry({ meterProvider: meters.provider }),
  ])
  const stream = client.createStream(feedID, { staleAfter: 200 })
  let isStale = false
  stream.on('status', ({ type }) => {
    isStale ||= type === 'stale'
  })
  await stream.connect()
  engine.publish(feedID)
  await until(() => isStale)
  const states = ['streams_open', 'connections_open', 'connections_configured', 'feeds_stale']
  const expectAll = async (value: number): Promise<void> => {
    for (const values of [
      scrapedValues(await scrape(register)),
      exportedValues(await meters.collect()),
    ])
      for (const name of [...states, 'queue_depth'])
        expect([name, values.get(`sluice_${name}{}`)]).toEqual([name, value])
  }
  await expectAll(1)
  await stream.close()
  await expectAll(0)
  await client.close()
  await expectAll(0)
})

describe('the age of reports', () => {
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  function start() {
    const deferred: (() => void)[] = []
    const ages: number[] = []
    const scope = {
      client: { now: () => 1_700_000_010_000 },
      defer: (task: () => void) => void deferred.push(task),
    } as unknown as StreamScope
    let passed = 0
    const sink = sampleAges(
      () => void passed++,
      scope,
      age => void ages.push(age),
    )
    const pass = (count: number, time = 1_700_000_005, id = feedID.replace('0x1', '0x0')) => {
      const report = { feedID: id, observationsTimestamp: time } as Report
      for (let at = 0; at < count; at++) sink(report)
    }
    return { pass, ages, end: () => deferred.map(task => task()), passed: () => passed }
  }

  test('is in seconds, in whatever unit the feed counts, and never below zero', () => {
    const { pass, ages } = start()
    pass(1)
    pass(1, 1_700_000_009_500, feedID)
    pass(1, 1_700_000_020)
    expect(ages).toEqual([5, 0.5, 0])
  })

  test('is measured of each report of a slow stream, and of a sample of a fast one', () => {
    const { pass, ages, end, passed } = start()
    for (let second = 0; second < 5; second++) {
      pass(100)
      jest.advanceTimersByTime(1000)
    }
    expect(ages).toHaveLength(500)
    ages.length = 0
    // A sudden flood.
    pass(100_000)
    expect(ages.length).toBeLessThan(700)
    jest.advanceTimersByTime(1000)
    for (let second = 0; second < 10; second++) {
      ages.length = 0
      pass(100_000)
      expect(ages.length).toBeGreaterThan(64)
      expect(ages.length).toBeLessThan(300)
      jest.advanceTimersByTime(1000)
    }
    // Back to one report a second.
    jest.advanceTimersByTime(1000)
    ages.length = 0
    for (let second = 0; second < 10; second++) {
      pass(1)
      jest.advanceTimersByTime(1000)
    }
    expect(ages).toHaveLength(10)
    expect(passed()).toBe(500 + 11 * 100_000 + 10)
    end()
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('prometheus', () => {
  afterEach(() => defaultRegister.clear())

  test('registers with the default registry, once for all clients, and again after it was cleared', async () => {
    prometheus()
    prometheus()
    expect(defaultRegister.getMetricsAsArray()).toHaveLength(metrics.length)
    defaultRegister.clear()
    prometheus()
    expect(await defaultRegister.metrics()).toContain(
      '# TYPE sluice_reports_accepted_total counter',
    )
  })

  test('says which metric a registry has already, and takes a prefix', () => {
    const register = new Registry()
    new Gauge({ name: 'http_client_request_duration_seconds', help: 'mine', registers: [register] })
    expect(() => prometheus({ register })).toThrow(
      'prefix: the registry of prometheus has a metric http_client_request_duration_seconds already',
    )
    prometheus({ register, prefix: 'app_' })
    expect(register.getSingleMetric('app_sluice_reports_accepted_total')).toBeDefined()
  })

  test.each([
    [{ prefix: '1x' }, 'prefix must be letters'],
    [{ register: {} as Registry }, 'register must be a Registry'],
    [{ feedIDs: 1 as unknown as boolean }, 'feedIDs must be true or false'],
    [{ registry: {} } as object, "unknown option 'registry' of prometheus"],
  ])('rejects %j', (options, message) => {
    expect(() => prometheus(options)).toThrow(message)
    expect(() => prometheus(options)).toThrow(ValidationError)
  })
})

test.each([
  [{ propagate: 'yes' as unknown as boolean }, 'propagate must be true or false'],
  [
    { feedIds: true } as object,
    "unknown option 'feedIds' of opentelemetry; did you mean 'feedIDs'?",
  ],
])('opentelemetry rejects %j', (options, message) => {
  expect(() => opentelemetry(options)).toThrow(message)
})

test('opentelemetry does nothing, and does no harm, without an SDK', async () => {
  const engine = await startEngine()
  const client = open(engine, [opentelemetry()])
  engine.publish(feedID)
  expect((await client.getLatestReport(feedID)).feedID).toBe(feedID)
})
