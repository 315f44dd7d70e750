import { describe, expect, test } from '@jest/globals'
import { inMilliseconds } from '../../report/feed-id.js'
import { readContext } from '../../report/full-report.js'
import {
  findSignedLater,
  type SignedLater,
  type Signing,
  SigningOrder,
  signingOf,
} from '../../report/signing-order.js'
import { createRandom, type Random } from '../support/random.js'
import { publishedReports } from '../support/report/published-reports.js'
import { inForm } from '../support/tier.js'

const START = 1_790_000_000
const digests = ['0x0006aa', '0x0006bb'] as const
const feedIDs = Array.from({ length: 20 }, (_, index) => {
  const digits = (index + 16).toString(16).padStart(2, '0')
  return `${index % 4 === 3 ? '0x1003' : '0x0003'}${digits.repeat(30)}`
})

/** What is known of a report by the definition: it looks at every other report. */
function byDefinition(signing: Signing, all: readonly Signing[]): SignedLater | undefined {
  const timeOf = ({ feedID, time }: Signing): number => inMilliseconds(feedID, time)
  const own = timeOf(signing)
  const width = signing.feedID.startsWith('0x1') ? 1 : 1000
  const network = all.filter(each => each.digest === signing.digest)
  const earlier = network.filter(each => each.number < signing.number)
  const isShown = earlier.some(each =>
    each.feedID === signing.feedID ? timeOf(each) > own : timeOf(each) > own + width + 1000,
  )
  if (!isShown) return undefined
  const ofItsTime = network.filter(
    each =>
      each.number > signing.number &&
      network.every(
        other =>
          other.number > each.number ||
          timeOf(other) < timeOf(each) ||
          (other.number === each.number && timeOf(other) === timeOf(each)),
      ),
  )
  const before = Math.min(...ofItsTime.map(timeOf))
  return {
    after: Math.max(...earlier.map(timeOf)),
    before: Number.isFinite(before) ? before : undefined,
  }
}

/**
 * Milliseconds by which a report is signed later, at least. A report in seconds may be of any moment of its second, the times of two
 * feeds may differ by a second, and the next round may be 1.2 s away: so the other feeds show each of these reports.
 */
const LEAST_LATE = 3300

/**
 * The rounds of a network, one after the other: each signs a report of some feeds for its time. Some reports are left out, and signed
 * some rounds later.
 */
function roundsOf(random: Random, size: number, late: number) {
  const all: Signing[] = []
  const later: { readonly signing: Signing; readonly at: number }[] = []
  const waiting: { readonly feedID: string; readonly time: number; readonly due: number }[] = []
  const last = new Map<string, number>()
  let ms = START * 1000
  let number = random.pick(1, 1_000_000)
  const isLate = late / size
  while (all.length < size) {
    number += random.pick(1, 3)
    ms += random.pick(100, 1200)
    for (const feedID of feedIDs) {
      const time = feedID.startsWith('0x1') ? ms : Math.floor(ms / 1000)
      // A window is wide where a feed skips rounds.
      if (time <= (last.get(feedID) ?? 0) || random.chance(0.1)) continue
      last.set(feedID, time)
      if (random.chance(isLate))
        waiting.push({ feedID, time, due: ms + random.pick(LEAST_LATE, 600_000) })
      else all.push({ feedID, digest: digests[0], number, time })
    }
    for (const each of waiting.filter(({ due }) => due <= ms)) {
      waiting.splice(waiting.indexOf(each), 1)
      const { feedID, time } = each
      const signing = { feedID, digest: digests[0], number, time }
      all.push(signing)
      later.push({ signing, at: ms })
    }
  }
  return { all, later }
}

describe('the order of signing', () => {
  test('is found as by its definition, in whatever order the reports come', () => {
    for (let seed = 1; seed <= inForm(150, 20_000); seed++) {
      const random = createRandom(seed)
      const all = Array.from({ length: random.pick(1, 30) }, (): Signing => {
        const feedID = feedIDs[random.pick(0, 4)] as string
        const ms = START * 1000 + random.pick(0, 20_000)
        const time = feedID.startsWith('0x1') ? ms : Math.floor(ms / 1000)
        return { feedID, digest: random.of(digests), number: random.pick(1, 25), time }
      })
      const order = new SigningOrder()
      for (const signing of all) order.add(signing)
      for (const signing of all)
        expect({ seed, found: order.find(signing) }).toEqual({
          seed,
          found: byDefinition(signing, all),
        })
    }
  })

  test('finds every report that was signed later, and no other', () => {
    const random = createRandom(46)
    const late = inForm(400, 10_000)
    const size = 100 * late
    const { all, later } = roundsOf(random, size, late)
    expect(later.length).toBeGreaterThan(late * 0.5)
    const order = new SigningOrder()
    for (const signing of random.shuffled(all)) order.add(signing)
    const found = all.filter(signing => order.find(signing) !== undefined)
    expect(new Set(found)).toEqual(new Set(later.map(({ signing }) => signing)))
    for (const { signing, at } of later) {
      const { after, before = Number.POSITIVE_INFINITY } = order.find(signing) as SignedLater
      expect(after).toBeGreaterThan(inMilliseconds(signing.feedID, signing.time))
      // A round has one time, which reports in seconds round down.
      expect(after).toBeLessThanOrEqual(at)
      expect(before).toBeGreaterThan(at - 1000)
    }
  })

  test('is known of the reports of the last hours alone, if there are many', () => {
    const { all, later } = roundsOf(createRandom(3), 40_000, 400)
    const order = new SigningOrder(1000)
    for (const signing of all) {
      order.add(signing)
      const isLater = later.some(each => each.signing === signing)
      if (order.find(signing) !== undefined) expect(isLater).toBe(true)
    }
  })

  test('says nothing of a median that goes back a little between two feeds', () => {
    const order = new SigningOrder()
    const [one, other] = feedIDs as [string, string]
    order.add({ feedID: one, digest: digests[0], number: 7, time: START + 1 })
    const before = { feedID: other, digest: digests[0], number: 8, time: START }
    order.add(before)
    expect(order.find(before)).toBeUndefined()
    expect(order.find({ ...before, time: START - 2 })).toEqual({
      after: (START + 1) * 1000,
      before: undefined,
    })
    expect(order.find({ ...before, feedID: one })).toBeDefined()
    expect(order.find({ ...before, feedID: one, digest: digests[1] })).toBeUndefined()
  })

  test('has the sequence numbers of published reports, none of which was signed later', () => {
    const reports = publishedReports.map(({ feedID, fullReport, decoded }) => ({
      feedID,
      fullReport,
      observationsTimestamp: Number(decoded.observationsTimestamp),
    }))
    let numbered = 0
    for (const report of reports) {
      const { sequenceNumber, configDigest } = readContext(report.fullReport, report.feedID)
      const signing = signingOf(report)
      expect(signing?.number).toBe(sequenceNumber)
      if (signing !== undefined) expect(signing.digest).toBe(configDigest)
      if (signing !== undefined) numbered++
    }
    expect(numbered).toBeGreaterThan(0)
    const late: unknown[] = []
    findSignedLater(reports, report => late.push(report))
    expect(late).toEqual([])
  })
})
