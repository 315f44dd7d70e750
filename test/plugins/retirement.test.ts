import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { Registry } from 'prom-client'
import {
  createClient,
  defaultPreset,
  haPreset,
  type RetirementOptions,
  type RetiringFeed,
  retirement,
} from '../../index.js'
import { prometheus } from '../../plugins/prometheus.js'
import { until } from '../support/waiting.js'

const eth = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const btc = '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439'
const path = '/api/v1/discovery'

let engine: DataEngine
const closing: (() => Promise<void>)[] = []
beforeEach(async () => {
  engine = await startDataEngine({
    feeds: [
      { feedID: eth, catalogue: { name: 'ETH/USD', hidden: true } },
      { feedID: btc, catalogue: { name: 'BTC/USD' } },
    ],
    intervalMs: 0,
    origins: 2,
  })
})
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
  await engine.close()
})

const asked = () => engine.requests().filter(each => each.path.startsWith(path)).length
const turns = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** A client whose plugin asks at once, with its warnings and the rest of its log. */
function open({ options = {}, register = new Registry() }: Setup = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const warnings: string[] = []
  const errors: string[] = []
  const logger = {
    debug() {},
    info() {},
    warn: (text: string) => void warnings.push(text),
    error: (text: string) => void errors.push(text),
  }
  const preset = defaultPreset({ apiKey, userSecret, retryAttempts: 0, logging: { logger } })
  const plugins = [
    prometheus({ register, feedIDs: true }),
    ...preset.map(plugin =>
      plugin.name === 'retirement' ? retirement({ after: 0, ...options }) : plugin,
    ),
  ]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closing.push(() => client.close())
  return { client, warnings, errors, register }
}
interface Setup {
  readonly options?: RetirementOptions
  readonly register?: Registry
}

test('a stream is told once of each of its feeds that gets a date', async () => {
  engine.catalogue.set(eth, { expectedDecommissionAt: 5 })
  const { client, warnings, register } = open({ options: { every: 1000 } })
  const told: RetiringFeed[] = []
  const stream = client.createStream([eth, btc])
  stream.on('retiring', feed => void told.push(feed))
  await stream.connect()
  await until(() => told.length > 0)
  expect(told).toEqual([{ feedID: eth, name: 'ETH/USD', at: expect.any(Date), daysLeft: 5 }])
  const day = told[0]?.at.toISOString().slice(0, 10)
  expect(warnings).toEqual([
    expect.stringContaining(`going to retire feed ETH/USD on ${day}, in 5 days`),
  ])
  const shown = await register.metrics()
  expect(shown).toMatch(
    new RegExp(`^sluice_feed_retirement_days\\{sluice_feed_id="${eth}"\\} 4\\.99`, 'm'),
  )
  await turns(1200)
  expect(told).toHaveLength(1)
  await stream.close()
  expect(await register.metrics()).not.toMatch(/^sluice_feed_retirement_days\{/m)
})

test('several streams of a client share a request, and each is told', async () => {
  engine.catalogue.set(btc, { expectedDecommissionAt: 1 })
  const { client } = open()
  const told: string[] = []
  for (const name of ['first', 'second']) {
    const stream = client.createStream(btc)
    stream.on('retiring', ({ daysLeft }) => void told.push(`${name} ${daysLeft}`))
    await stream.connect()
  }
  await until(() => told.length === 2)
  expect(told.sort()).toEqual(['first 1', 'second 1'])
  expect(asked()).toBe(1)
})

test('a stream of several connections asks once', async () => {
  engine.catalogue.set(btc, { expectedDecommissionAt: 1 / 24 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = haPreset({ apiKey, userSecret }).map(plugin =>
    plugin.name === 'retirement' ? retirement({ after: 0 }) : plugin,
  )
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closing.push(() => client.close())
  const told: RetiringFeed[] = []
  const stream = client.createStream([eth, btc])
  stream.on('retiring', feed => void told.push(feed))
  await stream.connect()
  await until(() => told.length > 0)
  await turns(200)
  expect(engine.connections).toBe(2)
  expect(told.map(({ feedID, daysLeft }) => [feedID, daysLeft])).toEqual([[btc, 1]])
  expect(asked()).toBe(1)
})

test('a short program makes no request', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  closing.push(() => client.close())
  expect(client.stack.map(({ name }) => name)).toContain('retirement')
  await client.createStream(btc).connect()
  await turns(100)
  expect(asked()).toBe(0)
})

test.each([404, 500])('a service that answers %s is no error, and is asked again', async status => {
  const end = engine.fail({ status, path, times: Number.POSITIVE_INFINITY })
  const { client, warnings, errors } = open({ options: { every: 1000 } })
  const told: RetiringFeed[] = []
  const stream = client.createStream(btc)
  stream.on('retiring', feed => void told.push(feed))
  await stream.connect()
  await until(() => asked() > 0)
  end()
  engine.catalogue.set(btc, { expectedDecommissionAt: 3 })
  await until(() => told.length > 0)
  expect(warnings).toEqual([expect.stringContaining('BTC/USD')])
  expect(errors).toEqual([])
})

test('nothing is asked once the stream is closed', async () => {
  const { client } = open({ options: { after: 100 } })
  const stream = client.createStream(btc)
  await stream.connect()
  await stream.close()
  await turns(200)
  expect(asked()).toBe(0)
})

test('options are checked', () => {
  expect(() => retirement({ every: 10 })).toThrow('every must be')
  expect(() => retirement({ evry: 1 } as RetirementOptions)).toThrow("did you mean 'every'?")
})
