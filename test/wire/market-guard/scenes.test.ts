import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { type Client, createClient, defaultPreset, type Plugin } from '../../../index.js'
import {
  type MarketReason,
  marketGuard,
  marketReasons,
} from '../../../plugins/market-guard/index.js'
import { pause, until } from '../../support/waiting.js'
import { type Scene, scenes } from './scenes.js'

/**
 * Answers for the catalogue, so that each scene has an entry of its own. `entry` undefined: the
 * catalogue is down.
 */
function catalogueOf(feedID: string, entry: Scene['entry']): Plugin<never> {
  const feeds = [
    { feedId: feedID, schemaVersion: `V${feedID.slice(5, 6)}`, status: 'live', ...entry },
  ]
  return {
    name: 'catalogue',
    call: next => async call => {
      if (call.kind !== 'request' || !call.url.includes('/api/v1/discovery')) return next(call)
      if (entry === undefined) throw new Error('the catalogue is down')
      const body = new TextEncoder().encode(JSON.stringify({ feeds }))
      return { kind: 'request', status: 200, headers: new Headers(), body }
    },
  }
}

let engine: DataEngine
let client: Client | undefined
const wrong = { tradable: [] as string[], refused: [] as string[] }
const seen = new Set<MarketReason>()

const idOf = (index: number, version: number): string =>
  `0x100${version.toString(16)}${index.toString(16).padStart(4, '0').repeat(15)}`

beforeAll(async () => {
  const feeds = scenes.map(({ version }, index) => idOf(index, version))
  engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
})
afterEach(async () => {
  await client?.close()
})
afterAll(() => engine.close())

async function play(scene: Scene, index: number): Promise<void> {
  const { version, options = {}, hours, steps } = scene
  const entry = 'entry' in scene ? scene.entry : {}
  const feedID = idOf(index, version)
  const guard = marketGuard({ ...options, ...(hours && { hours: { [feedID]: hours } }) })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const plugins = [guard, catalogueOf(feedID, entry), ...defaultPreset({ apiKey, userSecret })]
  client = createClient({ endpoint, wsEndpoint, plugins })
  const stream = client.createStream(feedID)
  const events: MarketReason[] = []
  let reports = 0
  stream.on('market', ({ reason }) => void events.push(reason))
  stream.on('report', () => void reports++)
  await stream.connect()
  // The catalogue has answered.
  await pause(20)
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

test.each(
  scenes.map((scene, index) => [`V${scene.version}: ${scene.title}`, scene, index] as const),
)('%s', (_title, scene, index) => play(scene, index))

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
