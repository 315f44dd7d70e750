import { afterEach, describe, expect, test } from '@jest/globals'
import {
  type ContinuityOptions,
  continuity,
  createClient,
  dedup,
  type Gap,
  haDiscovery,
  hmacAuth,
  type Plugin,
  type ReportVerificationError,
  retry,
  type SignerSet,
  type Signers,
  type StreamOptions,
  type UnverifiedReport,
  ValidationError,
  type VerifyOptions,
  verify,
} from '../../index.js'
import {
  type DataEngine,
  type DataEngineOptions,
  type Forgery,
  startDataEngine,
} from '../../local/index.js'
import type { Report } from '../../report/report.js'
import { failureOf, pause, until } from '../waiting.js'

const ethUsd = `0x0003${'e7'.repeat(30)}`
const btcUsd = `0x0003${'b7'.repeat(30)}`
const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

type Given = Partial<VerifyOptions>

function clientOf(engine: DataEngine, given: Given = {}, config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 20,
    verify: { signers: engine.network, workers: 0, ...given },
    ...config,
  })
  closers.push(() => client.close())
  return client
}

/** A stream that verifies, and all that came of it. */
async function open(
  engine: DataEngine,
  given: Given = {},
  config: { readonly continuity?: ContinuityOptions; readonly haMode?: boolean } = {},
  options: StreamOptions = {},
) {
  const client = clientOf(engine, given, config)
  const stream = client.createStream(engine.feeds, { reconnectInterval: 200, ...options })
  const seen = {
    reports: [] as Report[],
    refused: [] as ReportVerificationError[],
    errors: [] as Error[],
    conflicts: [] as { first: Report; other: Report }[],
    gaps: [] as Gap[],
    times: () => seen.reports.map(({ observationsTimestamp }) => observationsTimestamp),
    reasons: () => seen.refused.map(({ reason }) => reason),
  }
  stream.on('report', report => void seen.reports.push(report))
  stream.on('error', error => {
    if (error.name === 'ReportVerificationError')
      seen.refused.push(error as ReportVerificationError)
    else seen.errors.push(error)
  })
  stream.on('conflict', conflict => void seen.conflicts.push(conflict))
  stream.on('gap', gap => void seen.gaps.push(gap))
  await stream.connect()
  await until(() => engine.connections >= engine.origins.length)
  return { client, stream, seen }
}

/** A source of signers that answers when it is let. */
function slowSource(set: SignerSet) {
  let answer: () => void = () => undefined
  const answered = new Promise<void>(resolve => {
    answer = resolve
  })
  const asked: string[] = []
  const source = async (digest: string, _report: UnverifiedReport) => {
    asked.push(digest)
    await answered
    return set
  }
  return { source, asked, answer: () => answer() }
}

/** Until the test ends, timers and the clock they are judged by run ten times as fast. */
function hurry(): void {
  const { setTimeout: start, performance: clock } = globalThis
  const hurried = (run: () => void, ms = 0): NodeJS.Timeout => start(run, ms / 10)
  const since = clock.now()
  const replace = (timer: unknown, performance: unknown): void =>
    void Object.defineProperties(globalThis, {
      setTimeout: { value: timer, configurable: true, writable: true },
      performance: { value: performance, configurable: true, writable: true },
    })
  replace(hurried, { now: () => since + 10 * (clock.now() - since) })
  closers.push(async () => replace(start, clock))
}

/** Each report of a feed ends a few seconds behind the one before. */
function publisher(engine: DataEngine, feedID = ethUsd) {
  let time = Math.floor(Date.now() / 1000) - 200
  return function publish(to?: Parameters<DataEngine['publish']>[2]) {
    time++
    return engine.publish(feedID, { observationsTimestamp: time }, to)
  }
}

const forgeries: [Forgery, string][] = [
  ['signature', 'unknown-signer|bad-signature'],
  ['signer', 'unknown-signer'],
  ['digest', 'unknown-digest'],
  ['few', 'too-few-signatures'],
  ['repeated', 'repeated-signer'],
  ['high-s', 'high-s'],
  ['v', 'bad-recovery-id'],
  ['context', 'unknown-signer|bad-signature'],
  ['value', 'unknown-signer|bad-signature'],
]

describe('a stream that verifies', () => {
  test('delivers true reports in order, and counts them', async () => {
    const engine = await start({ feeds: [ethUsd, btcUsd] })
    const { stream, seen } = await open(engine)
    const publish = { [ethUsd]: publisher(engine), [btcUsd]: publisher(engine, btcUsd) }
    const published = Array.from({ length: 20 }, (_, i) =>
      publish[i % 2 === 0 ? ethUsd : btcUsd]?.(),
    )
    await until(() => seen.reports.length === 20)
    for (const id of engine.feeds) {
      const times = (
        list: readonly (Pick<Report, 'feedID' | 'observationsTimestamp'> | undefined)[],
      ) => list.filter(each => each?.feedID === id).map(each => each?.observationsTimestamp)
      expect(times(seen.reports)).toEqual(times(published))
    }
    expect(stream.getMetrics()).toMatchObject({ accepted: 20, verified: 20, unverified: 0 })
    expect(Object.values(stream.getMetrics().origins)[0]).toMatchObject({ verified: 20 })
    expect(seen.refused).toEqual([])
  })

  test.each(forgeries)('refuses a forgery by %s, and says %s', async (forged, reasons) => {
    const engine = await start()
    const { stream, seen } = await open(engine, {}, { continuity: { maxBackfill: 0 } })
    const publish = publisher(engine)
    const first = publish()
    const forgedReport = publish({ forged, stored: false })
    const last = publish()
    await until(() => seen.reports.length === 2 && seen.refused.length === 1)
    expect(seen.times()).toEqual([first.observationsTimestamp, last.observationsTimestamp])
    expect(reasons.split('|')).toContain(seen.refused[0]?.reason)
    expect(seen.refused[0]?.report).toMatchObject({ fullReport: forgedReport.fullReport })
    expect(stream.getMetrics()).toMatchObject({ verified: 2, unverified: 1, accepted: 2 })
    expect(Object.values(stream.getMetrics().origins)[0]).toMatchObject({ unverified: 1 })
  })

  test('fetches the true report in the place of a forged one', async () => {
    const engine = await start()
    const { seen } = await open(engine)
    const publish = publisher(engine)
    publish()
    engine.origins[0]?.forge('value')
    const missing = publish()
    engine.origins[0]?.forge(undefined)
    publish()
    await until(() => seen.reports.length === 3)
    expect(seen.reports.at(-1)).toMatchObject({
      observationsTimestamp: missing.observationsTimestamp,
      fullReport: missing.fullReport,
      source: 'backfill',
    })
    expect(seen.reasons()).toHaveLength(1)
    expect(seen.gaps).toEqual([])
    expect(seen.conflicts).toEqual([])
  })

  test('keeps sorted order where a forged report is fetched again', async () => {
    const engine = await start()
    const { seen } = await open(engine, {}, { continuity: { order: 'sorted' } })
    const publish = publisher(engine)
    const published = Array.from({ length: 8 }, (_, i) => {
      engine.origins[0]?.forge(i % 3 === 1 ? 'value' : undefined)
      return publish().observationsTimestamp
    })
    engine.origins[0]?.forge(undefined)
    published.push(publish().observationsTimestamp)
    await until(() => seen.reports.length === 9)
    expect(seen.times()).toEqual(published)
    expect(seen.reasons()).toHaveLength(3)
    expect(seen.gaps).toEqual([])
  })

  test('announces a gap where what it fetches is forged too, and delivers the rest of the page', async () => {
    const engine = await start()
    const { stream, seen } = await open(engine)
    const publish = publisher(engine)
    publish()
    const missed = [
      publish({ streamed: false }),
      publish({ streamed: false, forged: 'signer' }),
      publish({ streamed: false }),
    ]
    publish()
    await until(() => seen.reports.length === 4 && seen.gaps.length === 1)
    const time = missed[1]?.observationsTimestamp as number
    expect(seen.gaps).toEqual([{ feedID: ethUsd, from: time, to: time, cause: 'upstream' }])
    expect(seen.times()).not.toContain(time)
    expect(seen.reasons()).toEqual(['unknown-signer', 'unknown-signer'])
    await pause(100)
    expect(engine.requests().filter(({ path }) => path.includes('page')).length).toBe(2)
    expect(stream.getMetrics()).toMatchObject({ gaps: 1, backfilled: 2 })
  })

  test('announces the time of which nothing was found out, and delivers the rest of the page', async () => {
    const engine = await start()
    const known = engine.network.configDigest
    const signers: Signers = async digest => {
      if (digest !== known) throw new Error('no node')
      return engine.network
    }
    const { stream, seen } = await open(engine, { signers })
    hurry()
    const publish = publisher(engine)
    publish()
    const missed = [
      publish({ streamed: false }),
      publish({ streamed: false, forged: 'digest' }),
      publish({ streamed: false }),
    ]
    publish()
    await until(() => seen.reports.length === 4)
    const time = missed[1]?.observationsTimestamp as number
    expect(seen.gaps).toEqual([])
    expect(seen.times()).not.toContain(time)
    await until(() => engine.requests().filter(({ path }) => path.includes('page')).length >= 3)
    expect(seen.reasons()).toEqual(['signers-unavailable'])
    await until(() => seen.gaps.length === 1, 40_000)
    expect(seen.gaps).toEqual([{ feedID: ethUsd, from: time, to: time, cause: 'unavailable' }])
    expect(seen.reasons()).toEqual(['signers-unavailable'])
    expect(engine.requests().filter(({ path }) => path.includes('page')).length).toBe(6)
    expect(stream.getMetrics()).toMatchObject({ gaps: 1, backfilled: 2 })
  })

  test('takes a feed that brings only forgeries for stale', async () => {
    const engine = await start()
    const { stream, seen } = await open(
      engine,
      {},
      { continuity: { maxBackfill: 0 } },
      { staleAfter: 400 },
    )
    const publish = publisher(engine)
    publish()
    await until(() => seen.reports.length === 1)
    const told: string[] = []
    stream.on('status', ({ type }) => void told.push(type))
    const timer = setInterval(() => publish({ forged: 'signer' }), 40)
    closers.push(async () => clearInterval(timer))
    await until(() => told.includes('stale'), 5000)
    clearInterval(timer)
    publish()
    await until(() => told.includes('fresh'))
    expect(seen.refused.length).toBeGreaterThan(5)
  })

  test('fetches what was in doubt again, and delivers it once it is not', async () => {
    const engine = await start()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    let vets = 0
    const doubter: Plugin = {
      name: 'doubter',
      report(next, scope) {
        if (scope.kind === 'stream')
          scope.appoint({
            contest: () => false,
            listen: () => undefined,
            vet: async page =>
              ++vets < 3
                ? Object.assign([], { undecided: new Map(page.map(each => [each, new Error()])) })
                : page,
          })
        return next
      },
    }
    const plugins = [continuity(), doubter, retry(), hmacAuth({ apiKey, userSecret })]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd)
    const times: number[] = []
    const gaps: Gap[] = []
    stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
    stream.on('gap', gap => void gaps.push(gap))
    await stream.connect()
    await until(() => engine.connections === 1)
    const publish = publisher(engine)
    publish()
    const missed = publish({ streamed: false })
    publish()
    await until(() => times.includes(missed.observationsTimestamp))
    expect(vets).toBe(3)
    expect(gaps).toEqual([])
  })

  test('asks twice, and no more, where a forged report is the last that the service has', async () => {
    const engine = await start()
    const { seen } = await open(engine)
    const publish = publisher(engine)
    publish()
    const { observationsTimestamp: time } = publish({ streamed: false, forged: 'signer' })
    publish({ stored: false })
    await until(() => seen.gaps.length === 1)
    expect(seen.gaps).toEqual([{ feedID: ethUsd, from: time, to: time, cause: 'upstream' }])
    expect(engine.requests().filter(({ path }) => path.includes('page')).length).toBe(2)
  })

  test('comes to the end of more forged reports than there are on a page', async () => {
    const engine = await start()
    const { seen } = await open(engine)
    const publish = publisher(engine)
    publish()
    for (let count = 0; count < 105; count++) publish({ streamed: false, forged: 'digest' })
    const good = publish({ streamed: false })
    publish()
    await until(() => seen.times().includes(good.observationsTimestamp))
    await until(() => seen.gaps.reduce((sum, { from, to }) => sum + to - from + 1, 0) === 105)
    expect(seen.reports).toHaveLength(3)
  })

  test('asks again for what it could not judge when it came', async () => {
    const engine = await start()
    let isDown = true
    const signers: Signers = async () => {
      if (isDown) throw new Error('no node')
      return engine.network
    }
    const { seen } = await open(engine, { signers })
    const publish = publisher(engine)
    publish()
    const lost = publish()
    await until(() => seen.refused.length === 2)
    expect(seen.reasons()).toEqual(['signers-unavailable', 'signers-unavailable'])
    isDown = false
    await pause(1100)
    publish()
    publish({ streamed: false })
    publish()
    await until(() => seen.reports.length === 3)
    expect(seen.gaps).toEqual([])
    expect(seen.times()).not.toContain(lost.observationsTimestamp)
  })

  test('holds up neither feeds nor other configurations while signers are being sought', async () => {
    const engine = await start({ feeds: [ethUsd, btcUsd] })
    const first = engine.network
    const slow = slowSource(first)
    const signers: Signers = (digest, report) =>
      digest === first.configDigest ? slow.source(digest, report) : Promise.resolve(engine.network)
    const { seen } = await open(engine, { signers })
    const publishEth = publisher(engine)
    const eth = [publishEth(), publishEth()]
    await until(() => slow.asked.length === 1)
    engine.rotate()
    const publishBtc = publisher(engine, btcUsd)
    const btc = publishBtc()
    const rotated = publishEth()
    await until(() => seen.reports.length === 2)
    await pause(50)
    expect(seen.times()).toEqual([btc, rotated].map(each => each.observationsTimestamp))
    slow.answer()
    await until(() => seen.reports.length === 4)
    expect(seen.times().slice(2)).toEqual(eth.map(each => each.observationsTimestamp))
  })

  test('makes the wire wait while too many are being verified, and loses nothing', async () => {
    const engine = await start({ maxBufferedBytes: 64 * 1024 * 1024 })
    const { source, answer } = slowSource(engine.network)
    const { stream, seen } = await open(engine, { signers: source, maxPending: 10 })
    const time = Math.floor(Date.now() / 1000) - 3000
    const published = Array.from({ length: 300 }, (_, i) =>
      engine.publish(ethUsd, { observationsTimestamp: time + i }),
    )
    await pause(300)
    const { received } = stream.getMetrics().origins[new URL(engine.wsEndpoint).origin] as {
      received: number
    }
    expect(received).toBeGreaterThanOrEqual(10)
    expect(received).toBeLessThan(150)
    answer()
    await until(() => seen.reports.length === 300, 30_000)
    expect(seen.times()).toEqual(published.map(each => each.observationsTimestamp))
    expect(seen.gaps).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ backfilled: 0, verified: 300 })
  }, 40_000)

  test('verifies a random one of so many, and keeps the order', async () => {
    const engine = await start()
    const draws = [0.9, 0.1, 0.9, 0.6, 0.4]
    const random = () => draws.shift() ?? 0.9
    const { stream, seen } = await open(
      engine,
      { mode: { sample: 2 }, random },
      { continuity: { maxBackfill: 0 } },
    )
    const publish = publisher(engine)
    const first = publish({ forged: 'signature' })
    const chosen = publish()
    const waiting = publish()
    const after = publish()
    publish({ forged: 'signature' })
    await until(() => seen.refused.length === 1)
    const passed = [first, chosen, waiting, after]
    expect(seen.times()).toEqual(passed.map(each => each.observationsTimestamp))
    expect(stream.getMetrics()).toMatchObject({ verified: 1, unverified: 1, accepted: 4 })
  })

  test('verifies on demand, once for each report, and remembers', async () => {
    const engine = await start()
    let asked = 0
    const signers: Signers = async () => {
      asked++
      return engine.network
    }
    const { stream, seen } = await open(engine, { mode: 'on-demand', signers })
    const publish = publisher(engine)
    publish()
    publish({ forged: 'signature' })
    await until(() => seen.reports.length === 2)
    expect(asked).toBe(0)
    const [good, bad] = seen.reports as [Report, Report]
    await Promise.all([good.verify(), good.verify()])
    const failure = await failureOf(bad.verify())
    expect(failure).toMatchObject({ name: 'ReportVerificationError', code: 'VERIFICATION' })
    expect(await failureOf(bad.verify())).toBe(failure)
    expect(stream.getMetrics()).toMatchObject({ verified: 0, unverified: 0 })
    expect(good.context).toMatchObject({ configDigest: engine.network.configDigest })
    expect(good.context).toBe(good.context)
    expect(good.context.signatures).toHaveLength(2)
  })

  test('says so where there is no plugin to verify with', async () => {
    const engine = await start({ history: 1 })
    const client = clientOf(engine, {}, { verify: undefined })
    const report = await client.getLatestReport(ethUsd)
    expect(await failureOf(report.verify())).toMatchObject({
      code: 'PLUGIN',
      message: expect.stringContaining('verify'),
    })
  })

  test('delivers and announces nothing after it was closed, and leaves nobody waiting', async () => {
    const engine = await start()
    const { source, answer } = slowSource(engine.network)
    const { client, stream, seen } = await open(engine, { signers: source })
    const publish = publisher(engine)
    publish()
    publish({ forged: 'signature' })
    const demanded = client.getLatestReport(ethUsd)
    demanded.catch(() => undefined)
    await until(() => stream.getMetrics().origins !== undefined && engine.requests().length > 1)
    await pause(50)
    await client.close()
    answer()
    expect(await failureOf(demanded)).toMatchObject({ code: 'CLOSED' })
    await pause(100)
    expect(seen.reports).toEqual([])
    expect(seen.refused).toEqual([])
  })

  test('follows the network to other signers', async () => {
    const engine = await start()
    const signers: Signers = async digest =>
      engine.networks.find(({ configDigest }) => configDigest === digest)
    const { seen } = await open(engine, { signers })
    const publish = publisher(engine)
    publish()
    engine.rotate({ f: 2 })
    publish()
    await until(() => seen.reports.length === 2)
    expect(seen.reports.map(({ context }) => context.signatures.length)).toEqual([2, 3])
    expect(engine.networks).toHaveLength(2)
    expect(seen.refused).toEqual([])
  })
})

describe('several origins, one of which lies', () => {
  async function openHA(given: Given = {}, count = 2) {
    const engine = await start({ origins: count })
    const opened = await open(engine, given, { haMode: true, continuity: { maxBackfill: 0 } })
    return { engine, ...opened, publish: publisher(engine) }
  }

  test.each<Forgery>(['value', 'signature', 'signer', 'digest'])(
    'loses nothing, and sees no conflict, when it comes first with a forged %s',
    async forgery => {
      const { engine, stream, seen, publish } = await openHA()
      const [liar, honest] = engine.origins
      liar?.forge(forgery)
      honest?.delay(60_000)
      const published = Array.from({ length: 10 }, () => publish().observationsTimestamp)
      await until(() => seen.refused.length === 10)
      expect(seen.reports).toEqual([])
      honest?.delay(0)
      await until(() => seen.reports.length === 10)
      expect(seen.times()).toEqual(published)
      expect(seen.reports.every(({ originID }) => originID === '002')).toBe(true)
      expect(seen.conflicts).toEqual([])
      expect(seen.gaps).toEqual([])
      expect(stream.getMetrics()).toMatchObject({ accepted: 10, verified: 10, unverified: 10 })
      expect(stream.getMetrics().origins).toMatchObject({
        [`${engine.wsEndpoint}#001`]: { unverified: 10, verified: 0 },
        [`${engine.wsEndpoint}#002`]: { verified: 10, unverified: 0 },
      })
    },
  )

  test('passes the true copy on that came while the forged one was being looked at', async () => {
    const engine = await start({ origins: 2 })
    const { source, answer } = slowSource(engine.network)
    const { stream, seen } = await open(
      engine,
      { signers: source },
      { haMode: true, continuity: { maxBackfill: 0 } },
    )
    const publish = publisher(engine)
    const [liar, honest] = engine.origins
    liar?.forge('value')
    honest?.delay(60_000)
    const received = () =>
      Object.values(stream.getMetrics().origins).reduce((sum, origin) => sum + origin.received, 0)
    const published = Array.from({ length: 5 }, () => publish().observationsTimestamp)
    await until(() => received() === 5)
    honest?.delay(0)
    await until(() => received() === 10)
    answer()
    await until(() => seen.reports.length === 5)
    expect(seen.times()).toEqual(published)
    expect(seen.refused).toHaveLength(5)
    expect(seen.conflicts).toEqual([])
  })

  test('sees no conflict when it comes late with other values', async () => {
    const { engine, stream, seen, publish } = await openHA()
    const [liar, honest] = engine.origins
    liar?.forge('value')
    liar?.delay(100)
    honest?.delay(0)
    publish()
    publish()
    await until(() => seen.reports.length === 2 && seen.refused.length === 2)
    expect(seen.conflicts).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ accepted: 2, unverified: 2, deduplicated: 0 })
  })

  test('still tells of a conflict where both reports are signed', async () => {
    const { engine, stream, seen, publish } = await openHA()
    const published = publish()
    await until(() => seen.reports.length === 1)
    const { observationsTimestamp, validFromTimestamp } = published
    const twin = engine.publish(
      ethUsd,
      { observationsTimestamp, validFromTimestamp, price: 1n },
      { stored: false },
    )
    expect(twin.fullReport).not.toBe(published.fullReport)
    await until(() => seen.conflicts.length === 2)
    expect(seen.conflicts[0]?.other.fullReport).toBe(twin.fullReport)
    expect(seen.reports).toHaveLength(1)
    expect(stream.getMetrics().deduplicated).toBe(3)
  })

  test('a forged time far ahead leaves no trace', async () => {
    const { engine, stream, seen, publish } = await openHA()
    publish()
    engine.publish(
      ethUsd,
      { observationsTimestamp: 4_000_000_000 },
      { forged: 'signature', stored: false },
    )
    await until(() => seen.refused.length >= 1)
    await pause(50)
    publish()
    await until(() => seen.reports.length === 2)
    await pause(50)
    expect(stream.getMetrics()).toMatchObject({ accepted: 2, late: 0 })
    expect(seen.gaps).toEqual([])
  })
})

describe('a request that verifies', () => {
  test('gives true reports, in order', async () => {
    const engine = await start({ feeds: [ethUsd, btcUsd], history: 5 })
    const client = clientOf(engine)
    const latest = await client.getLatestReport(ethUsd)
    await latest.verify()
    const from = latest.observationsTimestamp - 10
    const page = await client.getReportsPage(ethUsd, from)
    const times = page.map(each => each.observationsTimestamp)
    expect(times).toHaveLength(5)
    expect(times).toEqual([...times].sort((one, other) => one - other))
    const bulk = await client.getReportsBulk([btcUsd, ethUsd], latest.observationsTimestamp - 1)
    expect(bulk.map(({ feedID }) => feedID)).toEqual([btcUsd, ethUsd])
    expect(await client.getReportByTimestamp(ethUsd, times[2] as number)).toMatchObject({
      observationsTimestamp: times[2],
    })
  })

  test('rejects with the reason where one report is forged', async () => {
    const engine = await start()
    const publish = publisher(engine)
    const good = publish()
    publish({ forged: 'signer' })
    const client = clientOf(engine)
    const expected = { name: 'ReportVerificationError', reason: 'unknown-signer' }
    expect(await failureOf(client.getLatestReport(ethUsd))).toMatchObject(expected)
    const from = good.observationsTimestamp
    expect(await failureOf(client.getReportsPage(ethUsd, from))).toMatchObject(expected)
    expect(await client.getReportByTimestamp(ethUsd, from)).toMatchObject({
      fullReport: good.fullReport,
    })
  })

  test('gives what nobody has asked to verify', async () => {
    const engine = await start()
    publisher(engine)({ forged: 'signer' })
    const client = clientOf(engine, { mode: 'on-demand' })
    const report = await client.getLatestReport(ethUsd)
    expect(await failureOf(report.verify())).toMatchObject({ reason: 'unknown-signer' })
  })

  test('ends with its signal while the signers are being sought', async () => {
    const engine = await start({ history: 1 })
    const { source, asked } = slowSource(engine.network)
    const client = clientOf(engine, { signers: source })
    const controller = new AbortController()
    const asking = client.getLatestReport(ethUsd, { signal: controller.signal })
    await until(() => asked.length === 1)
    controller.abort(new Error('enough'))
    expect(await failureOf(asking)).toMatchObject({ message: 'enough' })
  })
})

describe('the plugin in a stack', () => {
  const facts = { endpoint: 'https://api.example', wsEndpoint: 'wss://ws.example' }
  const signers: SignerSet = {
    signers: [1, 2, 3, 4].map(each => `0x${String(each).padStart(40, '0')}`),
    f: 1,
  }

  test('stands above dedup in the presets, and is not there unless asked for', () => {
    const keys = { apiKey: 'key', userSecret: 'secret' }
    const names = (config: object) =>
      createClient({ ...facts, ...keys, ...config }).stack.map(({ name }) => name)
    for (const haMode of [false, true]) {
      const stack = names({ haMode, verify: { signers } })
      expect(stack.indexOf('verify')).toBe(stack.indexOf('dedup') - 1)
      expect(stack.indexOf('verify')).toBeGreaterThan(stack.indexOf('continuity'))
      expect(names({ haMode })).toEqual(stack.filter(name => name !== 'verify'))
    }
  })

  test('is refused above continuity', () => {
    const plugins = [verify({ signers }), continuity(), dedup()]
    expect(() => createClient({ ...facts, plugins })).toThrow(ValidationError)
    expect(() => createClient({ ...facts, plugins })).toThrow('verify must stand below continuity')
  })

  test('says what is wrong with its options', () => {
    const bad: [object | undefined, string][] = [
      [undefined, 'signers'],
      [{}, 'signers'],
      [{ signers, mode: 'some' }, 'mode'],
      [{ signers, mode: { sample: 0 } }, 'mode.sample'],
      [{ signers, mode: { sample: 0.5 } }, 'mode.sample'],
      [{ signers, maxPending: 0 }, 'maxPending'],
      [{ signers, random: 1 }, 'random'],
      [{ signers, enigne: 'noble' }, 'verify.enigne'],
    ]
    for (const [options, field] of bad) {
      expect(() => verify(options as VerifyOptions)).toThrow(ValidationError)
      expect(() => verify(options as VerifyOptions)).toThrow(field)
    }
  })

  test('is refused where a stage stands between it and dedup', () => {
    const between: Plugin = { name: 'between', report: next => report => next(report) }
    const plugins = [verify({ signers }), between, dedup()]
    expect(() => createClient({ ...facts, plugins })).toThrow(ValidationError)
    expect(() => createClient({ ...facts, plugins })).toThrow('not above between')
    const idle: Plugin = { name: 'idle' }
    void createClient({ ...facts, plugins: [verify({ signers }), idle, dedup()] }).close()
    void createClient({ ...facts, plugins: [dedup(), verify({ signers }), between] }).close()
  })

  test('has no rival', () => {
    const rival: Plugin = { name: 'rival', verifier: () => ({ check: () => undefined }) }
    expect(() => createClient({ ...facts, plugins: [verify({ signers }), rival] })).toThrow(
      'both have a verifier',
    )
  })

  test('is right below dedup too, where each copy is verified', async () => {
    const engine = await start({ origins: 2 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      continuity({ maxBackfill: 0 }),
      dedup(),
      verify({ signers: engine.network, workers: 0 }),
      haDiscovery(),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const client = createClient({ endpoint, wsEndpoint, plugins })
    closers.push(() => client.close())
    const stream = client.createStream(ethUsd)
    const times: number[] = []
    const conflicts: unknown[] = []
    stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
    stream.on('conflict', conflict => void conflicts.push(conflict))
    await stream.connect()
    await until(() => engine.connections === 2)
    engine.origins[0]?.forge('value')
    engine.origins[1]?.delay(20)
    const publish = publisher(engine)
    const published = Array.from({ length: 4 }, () => publish().observationsTimestamp)
    await until(() => times.length === 4)
    expect(times).toEqual(published)
    expect(conflicts).toEqual([])
  })

  test('shares nothing between two clients of one array', async () => {
    const engine = await start()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = [
      continuity(),
      verify({ signers: engine.network, workers: 0 }),
      dedup(),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ]
    const streams = [1, 2].map(() => {
      const client = createClient({ endpoint, wsEndpoint, plugins })
      closers.push(() => client.close())
      const stream = client.createStream(ethUsd)
      const reports: Report[] = []
      stream.on('report', report => void reports.push(report))
      return { client, stream, reports }
    })
    const [one, other] = streams as [(typeof streams)[number], (typeof streams)[number]]
    for (const { stream } of streams) await stream.connect()
    const publish = publisher(engine)
    publish()
    await until(() => one.reports.length === 1 && other.reports.length === 1)
    await one.client.close()
    publish()
    await until(() => other.reports.length === 2)
    await other.reports[1]?.verify()
    expect(one.reports).toHaveLength(1)
    expect(one.stream.getMetrics()).toMatchObject({ verified: 1 })
    expect(other.stream.getMetrics()).toMatchObject({ verified: 2 })
  })
})
