import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { type Client, createClient, defaultPreset, type Plugin } from '../../../index.js'
import {
  type MarketEvents,
  type MarketReason,
  marketGuard,
  marketReasons,
} from '../../../plugins/market-guard/index.js'
import {
  type Entry,
  type FakeCatalogue,
  startFakeCatalogue,
} from '../../support/service/catalogue.js'
import { pause, until } from '../../support/waiting.js'
import { type Scene, scenes } from './scenes.js'

/** A catalogue over HTTP. */
interface Catalogue {
  /** Where it is asked. */
  readonly endpoint: string
  /** How many requests it has got. */
  asked(): number
  /** Makes it answer with 503, until the returned function is called. */
  fail(): () => void
}

const path = '/api/v1/discovery'
let engine: DataEngine
let fake: FakeCatalogue
let client: Client<unknown, MarketEvents> | undefined
const wrong = { tradable: [] as string[], refused: [] as string[] }
const seen = new Set<MarketReason>()

const idOf = (index: number, version: number): string =>
  `0x100${version.toString(16)}${index.toString(16).padStart(4, '0').repeat(15)}`

beforeAll(async () => {
  const feeds = scenes.map(({ version, entry = {} }, index) => ({
    feedID: idOf(index, version),
    catalogue: entry,
  }))
  engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
  const listed = scenes.map(({ version, entry = {} }, index) => ({
    entry: entryOf(idOf(index, version), version, entry),
    seenBy: 'everybody' as const,
  }))
  fake = await startFakeCatalogue(listed, engine)
})
afterEach(async () => {
  await client?.close()
})
afterAll(async () => {
  await engine.close()
  await fake.close()
})

/** A feed as the other catalogue lists it, written without the engine. */
function entryOf(feedID: string, version: number, spec: NonNullable<Scene['entry']>): Entry {
  return {
    feedId: feedID,
    name: 'ACME/USD',
    ...{ baseAsset: 'ACME', quoteAsset: 'USD', assetClass: 'Equities', feedType: 'Equities' },
    attributeType: 'EquityPrice',
    marketHours: 'US Equities',
    schemaVersion: `V${version}`,
    ...{ status: 'live', networkType: 'testnet', createdAt: '2025-01-15T09:30:00Z' },
    ...{ expectedDecommissionAt: null, decommissionedAt: null },
    ...(spec as Partial<Entry>),
  }
}

function engineCatalogue(): Catalogue {
  return {
    endpoint: engine.endpoint,
    asked: () => engine.requests().filter(each => each.path.startsWith(path)).length,
    fail: () => engine.fail({ status: 503, path, times: Number.POSITIVE_INFINITY }),
  }
}

function otherCatalogue(): Catalogue {
  return {
    endpoint: fake.endpoint,
    asked: () => fake.requests.length,
    fail() {
      fake.fails = 503
      return () => {
        fake.fails = undefined
      }
    },
  }
}

/** Notes when a request for the catalogue has ended, however it has. */
function watchCatalogue(onEnd: () => void): Plugin<never> {
  return {
    name: 'watch-catalogue',
    call: next => async call => {
      try {
        return await next(call)
      } finally {
        if (call.kind === 'request' && call.url.includes(path)) onEnd()
      }
    },
  }
}

async function play(scene: Scene, index: number, catalogue: Catalogue): Promise<void> {
  const { version, options = {}, hours, steps } = scene
  const isDown = 'entry' in scene && scene.entry === undefined
  const feedID = idOf(index, version)
  const guard = marketGuard({ ...options, ...(hours && { hours: { [feedID]: hours } }) })
  const { wsEndpoint, apiKey, userSecret } = engine
  let ended = 0
  const watch = watchCatalogue(() => void ended++)
  const preset = defaultPreset({ apiKey, userSecret, retryDelay: 1 })
  const plugins = [guard, watch, ...preset]
  client = createClient({ endpoint: catalogue.endpoint, wsEndpoint, plugins })
  const asked = catalogue.asked()
  const repair = isDown ? catalogue.fail() : undefined
  const stream = client.createStream(feedID)
  const events: MarketReason[] = []
  let reports = 0
  stream.on('market', ({ reason }) => void events.push(reason))
  stream.on('report', () => void reports++)
  await stream.connect()
  await until(() => ended === 1)
  await pause(5)
  repair?.()
  expect(catalogue.asked()).toBeGreaterThan(asked)
  const before = guard.of(feedID)
  expect([before.reason, before.tradable]).toEqual(['no-report', false])
  for (const [number, { fields, wait = 0, verdict: expected }] of steps.entries()) {
    const count = reports
    if (fields !== undefined) {
      engine.publish(feedID, fields(Date.now()))
      await until(() => reports > count)
    }
    await pause(wait)
    const verdict = guard.of(feedID)
    const name = `${scene.title}, step ${number}: ${verdict.reason}, not ${expected}`
    const mayTrade = marketReasons[expected].tradable
    if (verdict.tradable && !mayTrade) wrong.tradable.push(name)
    if (!verdict.tradable && mayTrade) wrong.refused.push(name)
    seen.add(verdict.reason)
    expect([number, verdict.reason]).toEqual([number, expected])
    expect(verdict.caution).toBe(marketReasons[expected].caution)
    // The event came by itself, in silence, too.
    expect(events.at(-1)).toBe(expected)
  }
  const changes = steps.map(({ verdict }) => verdict)
  expect(events).toEqual(changes.filter((verdict, at) => verdict !== changes[at - 1]))
}

const titled = scenes.map(
  (scene, index) => [`V${scene.version}: ${scene.title}`, scene, index] as const,
)

describe('with the catalogue of the engine', () => {
  test.each(titled)('%s', (_title, scene, index) => play(scene, index, engineCatalogue()))
})

describe('with a catalogue of another hand', () => {
  const ofCatalogue = titled.filter(([, scene]) => 'entry' in scene)
  test.each(ofCatalogue)('%s', (_title, scene, index) => play(scene, index, otherCatalogue()))
})

test('nothing was wrongly tradable or wrongly refused', () => {
  expect(wrong).toEqual({ tradable: [], refused: [] })
})

test('each reason had a scene', () => {
  // A report that can't be decoded, and one of an unknown version, have tests of their own.
  const others: readonly MarketReason[] = ['no-report', 'undecodable', 'unknown-schema']
  const missing = Object.keys(marketReasons).filter(
    reason => !seen.has(reason as MarketReason) && !others.includes(reason as MarketReason),
  )
  expect(missing).toEqual([])
})
