import { expect, test } from '@jest/globals'
import { type Client, createClient, defaultPreset, type Report } from 'sluice'
import { type CandleEvents, candles } from 'sluice/plugins/candles'
import { type MarketEvents, marketGuard } from 'sluice/plugins/market-guard'
import { type Clock, type RecordedReport, startDataEngine, startReplay } from '../index.js'
import { sleep } from './support/signed.js'

const eth = `0x1003${'e7'.repeat(30)}`
const btc = `0x1003${'bc'.repeat(30)}`
const share = `0x100b${'5a'.repeat(30)}`
const feeds = [eth, btc, share]
/** The scripted day, in steps of 200 ms. */
const STEPS = 60
const STEP = 200
const e18 = 10n ** 18n

/** Decisions of a strategy, each with its feed, its reason and the time of the data. */
class Strategy {
  readonly decisions: string[] = []
  readonly recorded: RecordedReport[] = []
  readonly #client: Client<unknown, MarketEvents & CandleEvents>
  readonly #prices = new Map<string, bigint>()

  constructor(where: Where, begin: () => number) {
    const { apiKey, userSecret, endpoint, wsEndpoint, clock } = where
    const bars = candles({ intervals: ['1s'], warmUp: 0, closeAfter: 1000 })
    const guard = marketGuard({ catalogue: false, hours: { [share]: '24/5' }, maxAge: 2000 })
    const preset = defaultPreset({ apiKey, userSecret, rateLimit: { requests: 1000 } })
    const plugins = [guard, bars, ...preset]
    this.#client = createClient({ endpoint, wsEndpoint, plugins, ...(clock && { clock }) })
    const stream = this.#client.createStream(feeds)
    const at = (time: number): string => String(Math.round(time - begin())).padStart(6)
    const note = (time: number, text: string): void =>
      void this.decisions.push(`${at(time)} ${text}`)
    stream.on('report', report => {
      this.#decide(report, note)
      const { feedID, fullReport, source } = report
      this.recorded.push({ feedID, fullReport, source, receivedAt: this.now() })
    })
    stream.on('gap', ({ feedID, from, to }) => {
      note(from, `${nameOf(feedID)} has a gap of ${to - from + 1} ms`)
    })
    stream.on('candle', ({ feedID, start, open, close, complete }) => {
      if (feedID === eth && complete) note(start, `eth closes ${close > open ? 'higher' : 'lower'}`)
    })
    // A verdict that the clock has changed has the time at which it changed.
    stream.on('market', ({ feedID, reason, since }) => {
      if (reason === 'stale') note(since, `${nameOf(feedID)} is stale`)
      else if (reason !== 'no-report') note(this.#newest, `${nameOf(feedID)} is ${reason}`)
    })
    this.now = () => (clock === undefined ? Date.now() : clock.Date.now())
    this.connect = () => stream.connect()
  }

  readonly now: () => number
  readonly connect: () => Promise<void>
  #newest = 0

  close(): Promise<void> {
    return this.#client.close()
  }

  #decide({ feedID, observationsTimestamp: time, decoded }: Report, note: Note): void {
    this.#newest = time
    const { price } = decoded as { readonly price?: bigint }
    if (price === undefined) return
    // Both prices are of one time, whichever of the reports comes late.
    this.#prices.set(`${feedID} ${time}`, price)
    const [one, other] = [eth, btc].map(each => this.#prices.get(`${each} ${time}`))
    if (one !== undefined && other !== undefined) note(time, `ratio ${(other * 1000n) / one}`)
  }
}

type Note = (time: number, text: string) => void
interface Where {
  readonly apiKey: string
  readonly userSecret: string
  readonly endpoint: string
  readonly wsEndpoint: string
  readonly clock?: Clock
}

const nameOf = (feedID: string): string =>
  feedID === eth ? 'eth' : feedID === btc ? 'btc' : 'share'

/** A day of twelve seconds: a share that stands still, a report that nobody has, and a late one. */
async function live() {
  const engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
  let begin = 0
  const strategy = new Strategy(engine, () => begin)
  await strategy.connect()
  begin = Math.ceil(Date.now() / 1000) * 1000
  for (let step = 0; step < STEPS; step++) {
    const from = begin + step * STEP
    const to = from + STEP - 1
    await sleep(Math.max(0, to - Date.now()))
    const wave = BigInt((step * 7919) % 101)
    const times = { validFromTimestamp: from, observationsTimestamp: to }
    engine.publish(eth, { ...times, price: (3000n + wave) * e18 })
    if (step !== 20)
      engine.publish(
        btc,
        { ...times, price: (60_000n - 3n * wave) * e18 },
        { streamed: step !== 30 },
      )
    const seen = step < 15 || step > 35 ? to : begin + 15 * STEP
    engine.publish(share, {
      ...times,
      mid: 100n * e18,
      lastSeenTimestampNs: BigInt(seen) * 1_000_000n,
      marketStatus: 2,
    })
  }
  await sleep(16_000)
  await strategy.close()
  await engine.close()
  return { begin, strategy }
}

async function replayed(
  recorded: readonly RecordedReport[],
  begin: number,
  speed: number,
): Promise<readonly string[]> {
  await using replay = await startReplay(recorded, { speed, paused: true })
  const strategy = new Strategy(replay, () => begin)
  await strategy.connect()
  replay.resume()
  await replay.ended
  await sleep(16_000 / speed + 500)
  await strategy.close()
  return strategy.decisions
}

test('a strategy decides the same live, and replayed at 1 and at 60 times the speed', async () => {
  const { begin, strategy } = await live()
  const sorted = (decisions: readonly string[]): string[] => [...decisions].sort()
  expect(strategy.decisions.filter(each => each.endsWith('is stale'))).toHaveLength(4)
  expect(strategy.decisions.filter(each => each.includes('gap'))).toHaveLength(1)
  expect(strategy.decisions.length).toBeGreaterThan(STEPS)
  const [slow, fast] = await Promise.all([
    replayed(strategy.recorded, begin, 1),
    replayed(strategy.recorded, begin, 60),
  ])
  expect(sorted(slow)).toEqual(sorted(strategy.decisions))
  expect(sorted(fast)).toEqual(sorted(strategy.decisions))
}, 120_000)
