import { createClient as createOfficial } from '@chainlink/data-streams-sdk'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { NoReportError } from '../../client/request/report-at.js'
import { createClient } from '../../index.js'
import { createRandom } from '../support/random.js'
import { inForm } from '../support/tier.js'

const FIRST = 1_700_000_000
const count = inForm(80, 380)
const feedID = `0x0003${'5d'.repeat(30)}`

test("agrees with the official client wherever that client's report holds the time", async () => {
  const engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const official = createOfficial({ apiKey, userSecret, endpoint, wsEndpoint, retryAttempts: 0 })
  const rateLimit = { requests: 10_000 }
  const ours = createClient({ apiKey, userSecret, endpoint, wsEndpoint, rateLimit })
  const random = createRandom(41)
  for (let from = FIRST; from < FIRST + count + 20; ) {
    const to = from + (random.chance(0.2) ? random.pick(1, 8) : 0)
    if (!random.chance(0.1))
      engine.publish(feedID, { validFromTimestamp: from, observationsTimestamp: to })
    from = to + 1
  }
  let [same, apart, missing] = [0, 0, 0]
  for (let time = FIRST; time < FIRST + count; time++) {
    const theirs = await official.getReportByTimestamp(feedID, time).catch(() => undefined)
    const holds =
      theirs !== undefined &&
      theirs.validFromTimestamp <= time &&
      time <= theirs.observationsTimestamp
    try {
      const report = await ours.getReportAt(feedID, time)
      expect(report.covers(time)).toBe(true)
      if (holds) expect(report.fullReport).toBe(theirs.fullReport)
      if (holds) same++
      else apart++
    } catch (error) {
      if (!(error instanceof NoReportError)) throw error
      // Theirs is a neighbour, or nothing.
      expect([error.reason, holds]).toEqual(['missing', false])
      missing++
    }
  }
  await ours.close()
  await engine.close()
  expect(same).toBeGreaterThan(count / 4)
  expect(missing).toBeGreaterThan(count / 40)
  expect(same + apart + missing).toBe(count)
})
