import { describe, expect, test } from '@jest/globals'
import {
  continuity,
  createClient,
  type Gap,
  hmacAuth,
  type Plugin,
  ReportVerificationError,
  retry,
  type Signers,
} from '../../../index.js'
import { hurry } from '../../support/hurry.js'
import { pause, until } from '../../support/waiting.js'
import { closers, ethUsd, open, publisher, start } from '../../support/wire/verify.js'

describe('a stream that verifies', () => {
  test('fetches the true report in place of a forged one', async () => {
    hurry()
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

  test('announces a gap where the fetched report is forged, too, and delivers the rest of the page', async () => {
    const engine = await start()
    const { stream, seen } = await open(engine)
    hurry()
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
    expect(new Set(seen.reasons())).toEqual(new Set(['unknown-signer']))
    await pause(100)
    expect(
      engine.requests().filter(({ path }) => path.includes('page')).length,
    ).toBeLessThanOrEqual(5)
    expect(stream.getMetrics()).toMatchObject({ gaps: 1, backfilled: 2 })
  })

  test('announces a gap for a report that can’t be verified, and delivers the rest of the page', async () => {
    const engine = await start()
    const known = engine.network.configDigest
    const signers: Signers = async digest => {
      if (digest !== known) throw new Error('no node')
      return engine.network
    }
    const { stream, seen } = await open(engine, { signers })
    hurry(20)
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
    await until(() => seen.gaps.length === 1)
    expect(seen.gaps).toEqual([{ feedID: ethUsd, from: time, to: time, cause: 'unavailable' }])
    expect(seen.reasons()).toEqual(['signers-unavailable'])
    expect(engine.requests().filter(({ path }) => path.includes('page')).length).toBeLessThan(10)
    expect(stream.getMetrics()).toMatchObject({ gaps: 1, backfilled: 2 })
  })

  test('reports a feed that brings only forgeries as stale', async () => {
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
    const statuses: string[] = []
    stream.on('status', ({ type }) => void statuses.push(type))
    const timer = setInterval(() => publish({ forged: 'signer' }), 40)
    closers.push(async () => clearInterval(timer))
    await until(() => statuses.includes('stale'))
    clearInterval(timer)
    publish()
    await until(() => statuses.includes('fresh'))
    expect(seen.refused.length).toBeGreaterThan(5)
  })

  test('fetches a report again after a retryable error, and delivers it once it is verified', async () => {
    const engine = await start()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    let injected = 0
    const doubter: Plugin = {
      name: 'doubter',
      report: (next, scope) =>
        function pass(report) {
          if (report.source !== 'backfill' || scope.kind === 'request' || ++injected === 3)
            next(report)
          else {
            const reason = 'signers-unavailable'
            scope.waitUntil(
              Promise.reject(new ReportVerificationError('in doubt', { reason })),
              report,
            )
          }
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
    hurry()
    await until(() => times.includes(missed.observationsTimestamp))
    expect(injected).toBe(3)
    expect(gaps).toEqual([])
  })

  test('asks a few times, and no more, where a forged report is the last that the service has', async () => {
    const engine = await start()
    const { seen } = await open(engine)
    hurry()
    const publish = publisher(engine)
    publish()
    const { observationsTimestamp: time } = publish({ streamed: false, forged: 'signer' })
    publish({ stored: false })
    await until(() => seen.gaps.length === 1)
    // The service does not have what came after it either, and so may only be late.
    expect(seen.gaps).toEqual([{ feedID: ethUsd, from: time, to: time, cause: 'unavailable' }])
    expect(
      engine.requests().filter(({ path }) => path.includes('page')).length,
    ).toBeLessThanOrEqual(10)
  })

  test('fetches beyond more forged reports than there are on a page', async () => {
    const engine = await start()
    const { seen } = await open(engine)
    hurry()
    const publish = publisher(engine)
    publish()
    for (let count = 0; count < 105; count++) publish({ streamed: false, forged: 'digest' })
    const good = publish({ streamed: false })
    publish()
    await until(() => seen.times().includes(good.observationsTimestamp))
    await until(() => seen.gaps.reduce((sum, { from, to }) => sum + to - from + 1, 0) === 105)
    expect(seen.reports).toHaveLength(3)
  })

  test('fetches again a report that it could not verify when it came', async () => {
    hurry()
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
})
