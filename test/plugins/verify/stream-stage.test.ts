import { describe, expect, jest, test } from '@jest/globals'
import type { ReportVerificationError } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { bad, feedA, feedB, report, stack } from '../../support/plugins/verify.js'

describe('verify in the stack of a stream', () => {
  test('keeps the order of a feed, whatever the order of the results, and no order between feeds', () => {
    const { sink, settle, delivered } = stack()
    const [one, two, three] = [report(1), report(2), report(3)]
    const other = report(1, { feedID: feedB })
    for (const each of [one, two, three, other]) sink(each)
    settle(three)
    settle(two)
    expect(delivered).toEqual([])
    settle(other)
    expect(delivered).toEqual([other])
    settle(one, bad)
    expect(delivered).toEqual([other, two, three])
  })

  test('pauses the connections at maxPending, and resumes them at half', () => {
    const { sink, settle, stream, delivered } = stack({ maxPending: 4 })
    const reports = [1, 2, 3, 4, 5].map(time => report(time))
    for (const each of reports.slice(0, 3)) sink(each)
    expect(stream.isPaused).toBe(false)
    for (const each of reports.slice(3)) sink(each)
    expect(stream.isPaused).toBe(true)
    for (const each of reports.slice(0, 2)) settle(each)
    expect(stream.isPaused).toBe(true)
    settle(reports[2] as Report, bad)
    expect(stream.isPaused).toBe(false)
    for (const each of reports.slice(3)) settle(each)
    expect(delivered).toHaveLength(4)
  })

  test('counts a report that differs from one passed on as waiting', () => {
    const { sink, settle, stream } = stack({ maxPending: 2 })
    const [first, other, next] = [report(1), report(1, { blob: '66' }), report(2)]
    sink(first)
    settle(first)
    sink(other)
    sink(next)
    expect(stream.isPaused).toBe(true)
    settle(other, bad)
    expect(stream.isPaused).toBe(false)
  })

  test('announces dropped reports as a gap, where a connection can’t be paused', () => {
    const { sink, settle, stream, delivered } = stack({ maxPending: 2 })
    stream.hasUnpausable = true
    const reports = [1, 2, 3, 4, 5, 6].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports.slice(0, 4)) settle(each)
    expect(delivered).toEqual(reports.slice(0, 4))
    expect(stream.gaps).toEqual([{ feedID: feedA, from: 5, to: 6, cause: 'overflow' }])
  })

  test('announces them within five seconds where the verification hangs, or when the stream ends', () => {
    jest.useFakeTimers()
    for (const isEnding of [false, true]) {
      const { sink, stream } = stack({ maxPending: 2 })
      stream.hasUnpausable = true
      for (const time of [1, 2, 3, 4, 5, 6]) sink(report(time))
      expect(stream.gaps).toEqual([])
      if (isEnding) stream.emitEnding()
      else jest.advanceTimersByTime(5000)
      const dropped = { feedID: feedA, from: 5, to: 6, cause: 'overflow' }
      const waiting = { feedID: feedA, from: 1, to: 4, cause: 'overflow' }
      expect(stream.gaps).toEqual(isEnding ? [dropped, waiting] : [dropped])
    }
    jest.useRealTimers()
  })

  test('passes on what is verified when the stream ends, and announces what still waits', () => {
    const { sink, settle, stream, delivered } = stack()
    const [one, two, three] = [report(1), report(2), report(3)]
    const other = report(7, { feedID: feedB })
    for (const each of [one, two, three, other]) sink(each)
    settle(two)
    stream.emitEnding()
    expect(delivered).toEqual([two])
    expect(stream.gaps).toEqual([
      { feedID: feedA, from: 1, to: 1, cause: 'overflow' },
      { feedID: feedA, from: 3, to: 3, cause: 'overflow' },
      { feedID: feedB, from: 7, to: 7, cause: 'overflow' },
    ])
    settle(three)
    expect(delivered).toEqual([two])
  })

  test('drops nothing where every connection can be paused', () => {
    const { sink, settle, stream, delivered } = stack({ maxPending: 2 })
    const reports = [1, 2, 3, 4, 5, 6].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports) settle(each)
    expect(delivered).toEqual(reports)
    expect(stream.gaps).toEqual([])
  })

  test('emits a plugin’s error when one above throws', () => {
    const { sink, settle, stream } = stack()
    const [one, two] = [report(1), report(2)]
    sink(one)
    sink(two)
    stream.throws = true
    settle(one)
    stream.throws = false
    settle(two)
    expect(stream.errors).toEqual([new Error('above')])
  })

  test('settles an injection when the report is passed on in its order, or rejected', async () => {
    const { sink, inject, settle, stream, delivered } = stack()
    const waiting = report(3)
    sink(waiting)
    const page = [1, 2].map(time => report(time, { source: 'backfill' }))
    const [good, wrong] = page as [Report, Report]
    const injections = page.map(inject)
    const settled: unknown[] = []
    for (const each of injections)
      each.then(() => settled.push('passed'), settled.push.bind(settled))
    settle(good)
    settle(wrong, bad)
    await new Promise(setImmediate)
    expect(settled).toEqual([expect.objectContaining({ reason: bad, isRetryable: false })])
    expect(stream.errors).toHaveLength(1)
    settle(waiting)
    await injections[0]
    expect(delivered).toEqual([waiting, good])
  })

  test.each([
    ['is refused', '66', bad],
    ['says nothing', '00', 'signers-unavailable'],
    ['is good', '00', undefined],
  ] as const)(
    'verifies a fetched report once where the check of the live one %s',
    async (_, blob, reason) => {
      const { sink, inject, settle, checkCount, counts, stream, delivered } = stack()
      const [first, next] = [report(1, { blob }), report(2)]
      const fetched = report(1, { source: 'backfill' })
      sink(first)
      sink(next)
      const injection = inject(fetched)
      settle(next)
      if (reason === bad) settle(fetched)
      expect(delivered).toEqual([])
      settle(first, reason)
      if (reason === 'signers-unavailable')
        await expect(injection).rejects.toMatchObject({ reason, isRetryable: true })
      else await injection
      expect(stream.conflicts).toEqual([])
      expect(checkCount()).toBe(reason === bad ? 3 : 2)
      if (reason === bad) expect(delivered).toEqual([fetched, next])
      else expect(delivered).toEqual(reason === undefined ? [first, next] : [next])
      expect(counts.deduplicated).toBe(reason === undefined ? 1 : 0)
    },
  )

  test('accepts fetched reports, whatever else waits', async () => {
    const { sink, inject, settle, checks, stream, delivered } = stack({ maxPending: 2 })
    stream.hasUnpausable = true
    for (let at = 10; at < 22; at++) {
      sink(report(1, { blob: `${at}`, origin: `${at}` }))
      sink(report(1, { blob: '10', origin: `${at}`, signatures: `${at}` }))
    }
    const forged = [...checks.keys()]
    const fetched = [
      report(1, { source: 'backfill' }),
      report(1, { source: 'backfill', origin: '002' }),
      report(2, { source: 'backfill' }),
    ] as const
    const injections = fetched.map(inject)
    const copy = inject(report(1, { source: 'backfill', blob: '10', signatures: '66' }))
    settle(fetched[0])
    settle(fetched[2])
    for (const each of forged) settle(each, bad)
    while (checks.size > 0) for (const each of [...checks.keys()]) settle(each, bad)
    await Promise.all(injections)
    await expect(copy).rejects.toMatchObject({ reason: bad })
    expect(delivered).toEqual([fetched[0], fetched[2]])
  })

  test('emits an error for each live report without signers', () => {
    const { sink, settle, stream, counts } = stack()
    for (let times = 0; times < 2; times++) {
      const live = report(1)
      sink(live)
      settle(live, 'signers-unavailable')
    }
    expect(stream.errors).toHaveLength(2)
    expect(counts).toMatchObject({ verificationFailed: 2, deduplicated: 0 })
  })

  test.each(['signers-unavailable', 'curve-library-unavailable'] as const)(
    'emits %s once for a fetched report, and rejects it each time',
    async doubt => {
      const { inject, settle, stream, counts } = stack()
      for (let times = 0; times < 2; times++) {
        const page = [1, 2, 3].map(time => report(time, { source: 'backfill' }))
        const [good, doubtful, wrong] = page as [Report, Report, Report]
        const injections = Promise.allSettled(page.map(inject))
        settle(good)
        settle(doubtful, doubt)
        settle(wrong, bad)
        expect(await injections).toMatchObject([
          { status: 'fulfilled' },
          { reason: { reason: doubt, isRetryable: true } },
          { reason: { reason: bad, isRetryable: false } },
        ])
      }
      const reasons = stream.errors.map(error => (error as ReportVerificationError).reason)
      expect(reasons).toEqual([doubt, bad, bad])
      expect(counts).toMatchObject({ verified: 2, verificationFailed: 2 })
    },
  )

  test('does not remember a dropped report as passed on', () => {
    const { sink, settle, stream, delivered, checks } = stack({ maxPending: 2 })
    stream.hasUnpausable = true
    const reports = [1, 2, 3, 4, 5].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports.slice(0, 4)) settle(each)
    const copy = report(5, { origin: '002' })
    sink(copy)
    expect(checks.has(copy)).toBe(true)
    settle(copy)
    expect(delivered.at(-1)).toBe(copy)
  })

  test('passes on an older report after a newer one', () => {
    const { sink, settle, delivered } = stack()
    const [newer, older] = [report(2), report(1)]
    sink(newer)
    sink(older)
    settle(older)
    expect(delivered).toEqual([])
    settle(newer)
    expect(delivered).toEqual([newer, older])
  })

  test('continues the feed where a plugin above throws on a fetched report', async () => {
    const { sink, inject, settle, stream, delivered } = stack()
    const fetched = report(1, { source: 'backfill' })
    const next = report(2)
    const injection = inject(fetched)
    sink(next)
    settle(next)
    stream.throws = true
    settle(fetched)
    await injection
    expect(stream.errors).toEqual([new Error('above'), new Error('above')])
    stream.throws = false
    const later = report(3)
    sink(later)
    settle(later)
    expect(delivered).toEqual([later])
  })

  test('does nothing after the end of the stream', async () => {
    const { sink, inject, settle, stream, counts, delivered, end } = stack()
    const [one, two, fetched] = [report(1), report(2), report(3, { source: 'backfill' })]
    sink(one)
    sink(two)
    const injection = inject(fetched)
    end()
    settle(one)
    settle(two, bad)
    settle(fetched)
    await expect(injection).rejects.toThrow('over')
    expect(delivered).toEqual([])
    expect(stream.errors).toEqual([])
    expect(counts.verified + counts.verificationFailed).toBe(0)
  })

  test('delivers nothing more once the stream was closed on a report', () => {
    const { sink, settle, stream, delivered, end } = stack()
    const [one, two] = [report(1), report(2)]
    sink(one)
    sink(two)
    stream.onDelivered = end
    settle(two)
    settle(one)
    expect(delivered).toEqual([one])
  })

  test('passes on a report that was not chosen at once, or after those that wait', () => {
    const draws = [0.1, 0.9, 0.9]
    const { sink, settle, checkCount, delivered } = stack({
      mode: { sample: 2 },
      random: () => draws.shift() as number,
    })
    const reports = [1, 2, 3].map(time => report(time)) as [Report, Report, Report]
    const [chosen, behind, free] = reports
    sink(chosen)
    sink(behind)
    expect(delivered).toEqual([])
    settle(chosen)
    expect(delivered).toEqual([chosen, behind])
    sink(free)
    expect(delivered).toEqual(reports)
    expect(checkCount()).toBe(1)
  })

  test('draws a sample of the configured share', () => {
    const { sink, delivered } = stack({ mode: { sample: 4 } })
    for (let time = 1; time <= 4000; time++)
      sink(report(time, { feedID: `0x0003${String(time).padStart(60, '0')}` }))
    expect(delivered.length).toBeGreaterThan(2850)
    expect(delivered.length).toBeLessThan(3150)
  })
})
