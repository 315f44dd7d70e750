import { describe, expect, test } from '@jest/globals'
import type { Signers } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { failureOf, pause, until } from '../../support/waiting.js'
import {
  btcUsd,
  clientOf,
  ethUsd,
  forgeries,
  open,
  publisher,
  slowSource,
  start,
} from '../../support/wire/verify.js'

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
    expect(stream.getMetrics()).toMatchObject({ accepted: 20, verified: 20, verificationFailed: 0 })
    expect(Object.values(stream.getMetrics().origins)[0]).toMatchObject({ verified: 20 })
    expect(seen.refused).toEqual([])
  })

  test('verifies each report once where three origins bring it', async () => {
    const engine = await start({ origins: 3 })
    const { stream, seen } = await open(engine, {}, { haMode: true })
    engine.origins[1]?.delay(5)
    engine.origins[2]?.delay(15)
    const publish = publisher(engine)
    const published = []
    for (let count = 0; count < 30; count++) {
      published.push(publish().observationsTimestamp)
      await pause(5)
    }
    await until(() => stream.getMetrics().totalReceived === 90)
    expect(seen.times()).toEqual(published)
    expect(stream.getMetrics()).toMatchObject({ accepted: 30, verified: 30, deduplicated: 60 })
    expect(seen.reports.every(report => report.verified)).toBe(true)
  })

  test.each(forgeries)('rejects a forgery by %s, with %s', async (forged, reasons) => {
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
    expect(stream.getMetrics()).toMatchObject({ verified: 2, verificationFailed: 1, accepted: 2 })
    expect(Object.values(stream.getMetrics().origins)[0]).toMatchObject({ verificationFailed: 1 })
  })

  test('delays neither feeds nor other configurations while signers are looked up', async () => {
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

  test('pauses the wire while too many are being verified, and loses nothing', async () => {
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
    await until(() => seen.reports.length === 300)
    expect(seen.times()).toEqual(published.map(each => each.observationsTimestamp))
    expect(seen.gaps).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ backfilled: 0, verified: 300 })
  }, 40_000)

  test('verifies a random one of n, and keeps the order', async () => {
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
    expect(stream.getMetrics()).toMatchObject({ verified: 1, verificationFailed: 1, accepted: 4 })
  })

  test('verifies on demand, once for each report, and caches the result', async () => {
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
    expect(stream.getMetrics()).toMatchObject({ verified: 0, verificationFailed: 0 })
    expect(good.context).toMatchObject({ configDigest: engine.network.configDigest })
    expect(good.context).toBe(good.context)
    expect(good.context.signatures).toHaveLength(2)
  })

  test('rejects where there is no plugin that verifies', async () => {
    const engine = await start({ history: 1 })
    const client = clientOf(engine, {}, { verify: undefined })
    const report = await client.getLatestReport(ethUsd)
    expect(await failureOf(report.verify())).toMatchObject({
      code: 'PLUGIN',
      message: expect.stringContaining('verify'),
    })
  })

  test('delivers and announces nothing after it was closed, and settles all promises', async () => {
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

  test('follows a rotation of the signers', async () => {
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
