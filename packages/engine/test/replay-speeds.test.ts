// What a strategy decides in a replay depends neither on the speed nor on what requests take.
import { expect, test } from '@jest/globals'
import { createClient, defaultPreset } from 'sluice'
import { marketGuard } from 'sluice/plugins/market-guard'
import { type RecordedReport, startDataEngine, startReplay } from '../index.js'
import { sleep, until } from './support/signed.js'

const eth = `0x1003${'e7'.repeat(30)}`
const btc = `0x1003${'bc'.repeat(30)}`
const share = `0x100b${'5a'.repeat(30)}`
const feeds = [eth, btc, share]
const names: Readonly<Record<string, string>> = { [eth]: 'eth', [btc]: 'btc', [share]: 'share' }
const begin = 1_700_049_600_000
const STEP = 200
const STEPS = 100
const e18 = 10n ** 18n

/**
 * Twenty seconds of a day, as `sluice record` writes them. A share stands still, reports of a feed
 * were missed by the stream, one is missing for good, and one is late.
 */
async function record(): Promise<readonly RecordedReport[]> {
  await using engine = await startDataEngine({
    ...{ feeds, intervalMs: 0, history: 0 },
    ...{ clock: 'manual', now: () => begin },
  })
  const recorded: RecordedReport[] = []
  for (let step = 0; step < STEPS; step++) {
    const validFromTimestamp = begin + step * STEP
    const to = validFromTimestamp + STEP - 1
    const times = { validFromTimestamp, observationsTimestamp: to }
    const wave = BigInt((step * 7919) % 101)
    const seen = step < 20 || step > 60 ? to : begin + 20 * STEP
    for (const feedID of feeds) {
      if (feedID === btc && step === 10) continue
      const price = feedID === eth ? 3000n + wave : 60_000n - 3n * wave
      const { fullReport } = engine.publish(feedID, {
        ...times,
        ...(feedID === share
          ? {
              mid: 100n * e18,
              marketStatus: 2,
              lastSeenTimestampNs: BigInt(seen) * 1_000_000n,
            }
          : { price: price * e18 }),
      })
      const isMissed = feedID === btc && (step === 30 || step === 31)
      // Feeds come one after the other, so that each decision has its own moment.
      const arrives = to + 300 + 40 * feeds.indexOf(feedID) + (step === 50 ? 900 : 0)
      recorded.push({
        ...{ feedID, fullReport, source: isMissed ? 'backfill' : 'live' },
        receivedAt: isMissed ? to + 800 : arrives,
      })
    }
  }
  return recorded
}

/** What a strategy decides, with the reason, the feed, and the time of the data and of the day. */
async function decide(recorded: readonly RecordedReport[], speed: number, answersIn = 0) {
  await using replay = await startReplay(recorded, { speed, paused: true })
  const { apiKey, userSecret, endpoint, wsEndpoint, clock } = replay
  const guard = marketGuard({ catalogue: false, hours: { [share]: '24/5' }, maxAge: 2000 })
  const preset = defaultPreset({ apiKey, userSecret, rateLimit: { requests: 1000 } })
  await using client = createClient({
    ...{ endpoint, wsEndpoint, clock, plugins: [guard, ...preset] },
    async fetch(input, init) {
      await sleep(answersIn)
      return fetch(input, init)
    },
  })
  const decisions: string[] = []
  const prices = new Map<string, bigint>()
  const note = (text: string): void => void decisions.push(text)
  const stream = client.createStream(feeds)
  stream.on('report', ({ feedID, observationsTimestamp: time, decoded, source }) => {
    const { price } = decoded as { readonly price?: bigint }
    const at = `${names[feedID]} of ${time - begin}, ${source}`
    // On a busy machine a fetched report comes later: it decides nothing, and is only told.
    if (price === undefined || source === 'backfill') return note(at)
    prices.set(feedID, price)
    const [one = 1n, other = 0n] = [eth, btc].map(each => prices.get(each))
    note(`${at}: ratio ${(other * 1000n) / one}, share ${guard.of(share).reason}`)
  })
  stream.on('gap', ({ feedID, from, to }) => {
    note(`${names[feedID]} has a gap of ${from - begin} to ${to - begin}`)
  })
  stream.on('market', ({ feedID, reason, since }) => {
    note(`${names[feedID]} is ${reason} since ${Math.round(since - begin)}`)
  })
  await stream.connect()
  replay.resume()
  await replay.ended
  await until(() => clock.Date.now() > begin + STEPS * STEP + 3000)
  return decisions
}

test('a strategy decides the same at every speed, in the same order', async () => {
  const recorded = await record()
  const [slow, fast, max, waiting] = await Promise.all([
    decide(recorded, 20),
    decide(recorded, 60),
    decide(recorded, 10_000),
    // At 60 times the speed, 20 ms would be longer than a second of the day.
    decide(recorded, 60, 20),
  ])
  expect(slow.filter(each => each.includes('gap'))).toEqual(['btc has a gap of 2000 to 2199'])
  expect(slow.filter(each => each.includes('backfill'))).toHaveLength(2)
  expect(slow.filter(each => each.includes('stale'))).not.toEqual([])
  expect(fast).toEqual(slow)
  expect(max).toEqual(slow)
  // While a request is out, the clock is held at the speed of real time.
  const isFetched = (each: string) => /gap|backfill/.test(each)
  expect(waiting.filter(each => !isFetched(each))).toEqual(slow.filter(each => !isFetched(each)))
  expect(waiting.filter(isFetched)).toEqual(slow.filter(isFetched))
})
