import { describe, expect, test } from '@jest/globals'
import { createClient } from '../../client/client.js'
import { NoReportError } from '../../client/request/report-at.js'
import { ValidationError } from '../../core/errors.js'
import { createRandom } from '../support/random.js'
import {
  clientOf,
  createHistory,
  type HistoryWindow,
  type SignedHistory,
  servePages,
} from '../support/report/signed-history.js'
import { inForm } from '../support/tier.js'

const seconds = `0x0003${'4b'.repeat(30)}`
const milliseconds = `0x1003${'4b'.repeat(30)}`
const histories = new Map([seconds, milliseconds].map(id => [id, createHistory(id, 800, 7)]))

const msOf = (history: SignedHistory, time: number): number => (time * 1000) / history.second

/** What is right, by the model: it knows every window, and when each was stored. */
function truth(
  history: SignedHistory,
  time: number,
  now: number,
): HistoryWindow | 'missing' | 'not-yet' {
  const window = history.windows.find(({ from, to }) => from <= time && time <= to)
  if (window?.report !== undefined) return window.storedAt <= now ? window : 'not-yet'
  const isFollowed = history.windows.some(
    ({ from, report, storedAt }) => from > time && report !== undefined && storedAt <= now,
  )
  return window !== undefined && isFollowed ? 'missing' : 'not-yet'
}

describe('the price at a moment', () => {
  test.each([seconds, milliseconds])('of %s is right, or honestly missing', async feedID => {
    const history = histories.get(feedID) as SignedHistory
    const random = createRandom(11)
    const counts = { right: 0, missing: 0, early: 0, unsure: 0 }
    for (let round = 0; round < inForm(20, 100); round++) {
      const present = random.pick(
        msOf(history, history.start) + 60_000,
        msOf(history, history.end) + 30_000,
      )
      const client = clientOf(history, present)
      const latest = Math.min(history.end, Math.floor((present * history.second) / 1000))
      // The newest minute is where a neighbour is nearest at hand.
      const earliest = random.chance(0.5) ? latest - 60 * history.second : history.start
      for (let each = 0; each < 50; each++) {
        const time = random.pick(Math.max(history.start, earliest), latest)
        const expected = truth(history, time, present)
        try {
          const report = await client.getReportAt(feedID, time)
          expect(report.covers(time)).toBe(true)
          expect(expected).toMatchObject({ report: { fullReport: report.fullReport } })
          counts.right++
        } catch (error) {
          if (!(error instanceof NoReportError)) throw error
          if (error.reason === 'missing') {
            expect(expected).toBe('missing')
            expect(error.after?.validFromTimestamp).toBeGreaterThan(time)
            counts.missing++
          } else if (expected === 'missing') counts.unsure++
          else {
            expect(expected).toBe('not-yet')
            counts.early++
          }
        }
      }
      await client.close()
    }
    // All ways are gone; what is missing for less than ten seconds is not yet known to be.
    expect(counts.right).toBeGreaterThan(inForm(600, 3000))
    expect(counts.missing).toBeGreaterThan(inForm(10, 50))
    expect(counts.early).toBeGreaterThan(inForm(10, 50))
    expect(counts.unsure).toBeLessThan(counts.missing)
  })

  test('waits for a report that is not produced yet', async () => {
    const history = histories.get(seconds) as SignedHistory
    const index = history.windows.findIndex(({ report }, at) => at > 400 && report !== undefined)
    const { to } = history.windows[index] as HistoryWindow
    const real = Date.now()
    const shift = to * 1000 - 500 - real
    // The clock of the client runs on from there, and so does the service's.
    const running = createClient({
      endpoint: 'http://127.0.0.1:9',
      wsEndpoint: 'ws://127.0.0.1:9',
      plugins: [],
      fetch: servePages(history, () => Date.now() + shift),
      now: () => Date.now() + shift,
    })
    await expect(running.getReportAt(seconds, to)).rejects.toMatchObject({ reason: 'not-yet' })
    await expect(running.getReportAt(seconds, to, { wait: 50 })).rejects.toMatchObject({
      code: 'NO_REPORT',
      reason: 'not-yet',
      isRetryable: true,
    })
    const report = await running.getReportAt(seconds, to, { wait: true })
    expect(report.observationsTimestamp).toBe(to)
    const controller = new AbortController()
    const waiting = running.getReportAt(seconds, to + 3600, {
      wait: true,
      signal: controller.signal,
    })
    controller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    const closed = running.getReportAt(seconds, to + 3600, { wait: true })
    await running.close()
    await expect(closed).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('refuses what is no moment', async () => {
    const history = histories.get(seconds) as SignedHistory
    const client = clientOf(history, 1000 * history.end)
    const refused = async (promise: Promise<unknown>, message: RegExp): Promise<void> => {
      await expect(promise).rejects.toThrow(ValidationError)
      await expect(promise).rejects.toThrow(message)
    }
    await refused(client.getReportAt(seconds, history.end + 60), /^time must not be in the future/)
    await refused(client.getReportAt(seconds, 1.5), /^time must be a whole number/)
    await refused(client.getReportAt('0x03', 1), /^feedID must be 0x/)
    await refused(
      client.getReportAt(seconds, 1, { wait: '5' as never }),
      /^wait must be true, false or a number of milliseconds, not string/,
    )
    expect(() => client.getReportsBetween(seconds, 1, 1e12)).toThrow(/^to must be in seconds/)
    expect(() => client.getReportsBetween(seconds, 1e12, 1e12)).toThrow(/^from must be in seconds/)
    await refused(client.getReportAt(seconds, 1, { weit: true } as never), /did you mean 'wait'/)
  })
})

describe('the reports of an interval', () => {
  test.each([seconds, milliseconds])('of %s, and what is missing', async feedID => {
    const history = histories.get(feedID) as SignedHistory
    const now = msOf(history, history.end) + 60_000
    const client = clientOf(history, now, 37)
    const random = createRandom(23)
    for (let round = 0; round < inForm(60, 2000); round++) {
      const from = random.pick(history.start, history.end - 1)
      const to = Math.min(
        history.end - 120 * history.second,
        from + random.pick(0, 300) * history.second,
      )
      if (to < from) continue
      const between = client.getReportsBetween(feedID, from, to)
      expect(between.missing).toBeUndefined()
      const found: string[] = []
      for await (const { fullReport } of between) found.push(fullReport)
      const touched = history.windows.filter(window => window.to >= from && window.from <= to)
      expect(found).toEqual(touched.flatMap(({ report }) => report?.fullReport ?? []))
      const holes: { from: number; to: number }[] = []
      for (const { from: first, to: last, report } of touched) {
        if (report !== undefined) continue
        const start = Math.max(first, from)
        const end = Math.min(last, to)
        const before = holes.at(-1)
        if (before?.to === start - 1) before.to = end
        else holes.push({ from: start, to: end })
      }
      expect(between.missing).toEqual(holes.map(hole => ({ ...hole, cause: 'upstream' })))
    }
    await client.close()
  })

  test('says that the newest are not there yet', async () => {
    const history = histories.get(seconds) as SignedHistory
    const middle = (history.windows[500] as HistoryWindow).to
    const client = clientOf(history, 1000 * (middle + 30))
    const between = client.getReportsBetween(seconds, middle - 100, middle + 100)
    for await (const report of between)
      expect(report.observationsTimestamp).toBeLessThan(middle + 31)
    expect(between.missing?.at(-1)).toMatchObject({ to: middle + 100, cause: 'not-yet' })
    expect(() => client.getReportsBetween(seconds, 5, 4)).toThrow(/^to must not be before from/)
    await client.close()
  })
})
