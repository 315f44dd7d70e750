import { describe, expect, test } from '@jest/globals'
import { DataStreamsError, type ReportVerificationError } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { bad, feedA, feedB, report, stack } from '../../support/plugins/verify.js'

describe('verify in the stack of a stream', () => {
  test('keeps the order of a feed, whatever the order of the verdicts, and no order between feeds', () => {
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

  test('holds the connections back at maxPending, and lets them go at half', () => {
    const { sink, settle, told, delivered } = stack({ maxPending: 4 })
    const reports = [1, 2, 3, 4, 5].map(time => report(time))
    for (const each of reports.slice(0, 3)) sink(each)
    expect(told.isHeld).toBe(false)
    for (const each of reports.slice(3)) sink(each)
    expect(told.isHeld).toBe(true)
    for (const each of reports.slice(0, 2)) settle(each)
    expect(told.isHeld).toBe(true)
    settle(reports[2] as Report, bad)
    expect(told.isHeld).toBe(false)
    for (const each of reports.slice(3)) settle(each)
    expect(delivered).toHaveLength(4)
  })

  test('counts a report that contests another among those that wait, as long as it does', () => {
    const { sink, settle, told } = stack({ maxPending: 2 })
    const [first, other, next] = [report(1), report(1, { blob: '66' }), report(2)]
    sink(first)
    settle(first)
    sink(other)
    sink(next)
    expect(told.isHeld).toBe(true)
    settle(other, bad)
    expect(told.isHeld).toBe(false)
  })

  test('announces as a gap what it has to drop, where a connection can’t be held back', () => {
    const { sink, settle, told, delivered } = stack({ maxPending: 2 })
    told.leaks = true
    const reports = [1, 2, 3, 4, 5, 6].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports.slice(0, 4)) settle(each)
    expect(delivered).toEqual(reports.slice(0, 4))
    expect(told.gaps).toEqual([{ feedID: feedA, from: 5, to: 6, cause: 'overflow' }])
  })

  test('drops nothing where every connection can be held back', () => {
    const { sink, settle, told, delivered } = stack({ maxPending: 2 })
    const reports = [1, 2, 3, 4, 5, 6].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports) settle(each)
    expect(delivered).toEqual(reports)
    expect(told.gaps).toEqual([])
  })

  test('says which plugin’s work it was when one above throws', () => {
    const { sink, settle, told } = stack()
    const [one, two] = [report(1), report(2)]
    sink(one)
    sink(two)
    told.throws = true
    settle(one)
    told.throws = false
    settle(two)
    expect(told.errors).toEqual([expect.any(DataStreamsError)])
    expect(told.errors[0]).toMatchObject({ code: 'PLUGIN', cause: { message: 'above' } })
  })

  test('passes what was fetched at once, without what is refused', async () => {
    const { sink, settle, told, delivered, vet } = stack()
    const waiting = report(3)
    sink(waiting)
    const page = [1, 2].map(time => report(time, { source: 'backfill' }))
    const [good, wrong] = page as [Report, Report]
    const vetting = vet(page)
    settle(good)
    settle(wrong, bad)
    const vetted = await vetting
    expect([...vetted]).toEqual([good])
    expect(vetted.refused).toEqual([wrong])
    expect(told.errors).toHaveLength(1)
    sink(good)
    expect(delivered).toEqual([good])
  })

  test('keeps what was fetched apart while nobody can say who may sign, and says so once', async () => {
    const { settle, told, counts, vet } = stack()
    for (let times = 0; times < 2; times++) {
      const page = [1, 2, 3].map(time => report(time, { source: 'backfill' }))
      const [good, doubtful, wrong] = page as [Report, Report, Report]
      const vetting = vet(page)
      settle(good)
      settle(doubtful, 'signers-unavailable')
      settle(wrong, bad)
      const vetted = await vetting
      expect([...vetted]).toEqual([good])
      expect(vetted.refused).toEqual([wrong])
      expect([...(vetted.undecided ?? [])]).toEqual([
        [doubtful, expect.objectContaining({ reason: 'signers-unavailable' })],
      ])
    }
    const reasons = told.errors.map(error => (error as ReportVerificationError).reason)
    expect(reasons).toEqual(['signers-unavailable', bad, bad])
    expect(counts).toMatchObject({ verified: 2, unverified: 2 })
  })

  test('does not take for delivered what it had to drop', () => {
    const { sink, settle, told, delivered, checks } = stack({ maxPending: 2 })
    told.leaks = true
    const reports = [1, 2, 3, 4, 5].map(time => report(time))
    for (const each of reports) sink(each)
    for (const each of reports.slice(0, 4)) settle(each)
    const copy = report(5, { origin: '002' })
    sink(copy)
    expect(checks.has(copy)).toBe(true)
    settle(copy)
    expect(delivered.at(-1)).toBe(copy)
  })

  test('counts as late what is passed on after a newer one', () => {
    const { sink, settle, counts } = stack()
    const [newer, older] = [report(2), report(1)]
    sink(newer)
    sink(older)
    settle(older)
    expect(counts.late).toBe(0)
    settle(newer)
    expect(counts.late).toBe(1)
  })

  test('goes on with the feed where a plugin above throws on what was fetched', async () => {
    const { sink, settle, told, delivered, vet } = stack()
    const [first, next] = [report(1), report(2)]
    sink(first)
    sink(next)
    settle(next)
    const fetched = report(1, { source: 'backfill' })
    const vetting = vet([fetched])
    settle(fetched)
    await vetting
    told.throws = true
    const above = () => sink(fetched)
    expect(above).not.toThrow()
    expect(told.errors).toMatchObject([{ code: 'PLUGIN' }, { code: 'PLUGIN' }])
    told.throws = false
    const later = report(3)
    sink(later)
    settle(later)
    expect(delivered).toEqual([later])
  })

  test('hears nothing after the end of the stream', () => {
    const { sink, settle, told, counts, delivered, end } = stack()
    const [one, two] = [report(1), report(2)]
    sink(one)
    sink(two)
    end()
    settle(one)
    settle(two, bad)
    expect(delivered).toEqual([])
    expect(told.errors).toEqual([])
    expect(counts.verified + counts.unverified).toBe(0)
  })

  test('stands without dedup too', () => {
    const { sink, settle, delivered } = stack({}, false)
    const [one, copy] = [report(1), report(1)]
    sink(one)
    sink(copy)
    settle(copy)
    settle(one)
    expect(delivered).toEqual([one, copy])
  })

  test('draws a sample of the share that was asked for', () => {
    const { sink, delivered } = stack({ mode: { sample: 4 } })
    for (let time = 1; time <= 4000; time++)
      sink(report(time, { feedID: `0x0003${String(time).padStart(60, '0')}` }))
    expect(delivered.length).toBeGreaterThan(2850)
    expect(delivered.length).toBeLessThan(3150)
  })
})
