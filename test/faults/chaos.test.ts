import { expect, test } from '@jest/globals'
import { createClient } from '../../index.js'
import { startDataEngine } from '../../local/index.js'

const SECONDS = Number(process.env.CHAOS_SECONDS ?? 60)
const SEED = Number(process.env.CHAOS_SEED ?? 1)
const FEEDS = 25
const INTERVAL = 50 // 25 feeds, one report each every 50 ms: 500 a second

/** A small generator, so that a run can be repeated. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
}

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

test(
  `${SECONDS} s of killed and revived origins lose nothing that a living one sent, and double nothing`,
  async () => {
    const next = random(SEED)
    const feeds = Array.from(
      { length: FEEDS },
      (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`,
    )
    const engine = await startDataEngine({
      feeds,
      origins: 4,
      intervalMs: INTERVAL,
      history: 0,
      compression: false,
      seed: SEED,
    })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode: true })
    const stream = client.createStream(feeds, {
      reconnectInterval: 200,
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
    })
    const delivered = new Map<string, number>()
    stream.on('report', report => {
      const key = `${report.feedID}:${report.observationsTimestamp}`
      delivered.set(key, (delivered.get(key) ?? 0) + 1)
    })
    engine.pause()
    await stream.connect()

    while (stream.getMetrics().activeConnections < 4) await pause(20)
    const before = engine.ledger().length
    engine.resume()

    // Of those that are connected, one lives on: another one each time.
    let kills = 0
    const dead = new Set<string>()
    const end = performance.now() + SECONDS * 1000
    while (performance.now() < end) {
      await pause(100 + next() * 400)
      const { originStatus } = stream.getMetrics()
      const living = engine.origins.filter(
        ({ id }) => originStatus[id] === 'connected' && !dead.has(id),
      )
      const origin = engine.origins[Math.floor(next() * 4)]
      if (origin === undefined) continue
      if (dead.has(origin.id)) {
        await origin.restart()
        dead.delete(origin.id)
      } else if (living.some(other => other !== origin)) {
        kills++
        await origin.kill()
        dead.add(origin.id)
      }
    }
    engine.pause()
    await pause(500)
    const metrics = stream.getMetrics()
    await client.close()

    const published = engine.ledger().slice(before)
    const lost = published.filter(
      report => !delivered.has(`${report.feedID}:${report.observationsTimestamp}`),
    )
    const doubled = [...delivered.values()].filter(times => times > 1)
    await engine.close()
    console.log(
      `chaos, seed ${SEED}, ${SECONDS} s: published ${published.length}, delivered ${delivered.size}, lost ${lost.length}, ` +
        `doubled ${doubled.length}, kills ${kills}, reconnections ${metrics.partialReconnects}, copies ${metrics.deduplicated}`,
    )
    expect(lost).toEqual([])
    expect(doubled).toEqual([])
    expect(metrics.accepted).toBe(delivered.size)
    expect(published.length).toBeGreaterThan(SECONDS * 100)
    expect(kills).toBeGreaterThan(SECONDS / 2)
  },
  (SECONDS + 30) * 1000,
)
