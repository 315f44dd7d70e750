import { describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { getTwap } from '../../client/beta.js'
import { type Client, createClient, type DecodedReport } from '../../index.js'
import { IncompleteError, twap, type WindowEnds } from '../../proof/index.js'
import type { Report } from '../../report/report.js'
import { createRandom } from '../support/random.js'
import { inForm } from '../support/tier.js'

const FIRST = 1_700_000_000
const WINDOW = 30
const source = `0x0003${'7a'.repeat(30)}`
const conventions = [
  { openEnd: 'start', straddling: 'clip' },
  { openEnd: 'start', straddling: 'whole' },
  { openEnd: 'end', straddling: 'clip' },
  { openEnd: 'end', straddling: 'whole' },
] as const
const idOf = (index: number): string => `0x0002${'7a'.repeat(29)}0${index}`

async function startAverages(): Promise<DataEngine> {
  return startDataEngine({
    feeds: [
      { feedID: source },
      ...conventions.map((convention, index) => ({
        feedID: idOf(index),
        twapOf: { feedID: source, window: WINDOW, ...convention },
      })),
    ],
    intervalMs: 0,
    history: 0,
  })
}

async function allOf(
  client: Client<DecodedReport>,
  feedID: string,
): Promise<Report<DecodedReport>[]> {
  const reports: Report<DecodedReport>[] = []
  for await (const report of client.reports(feedID, { from: FIRST, limit: 1000 }))
    reports.push(report)
  return reports
}

/**
 * Publishes a history whose windows follow each other, some of which absorbed a gap, and the
 * averages at the end of each.
 */
function publish(engine: DataEngine, count: number): void {
  const random = createRandom(77)
  for (let index = 0, from = FIRST; index < count; index++) {
    const to = from + (random.chance(0.15) ? random.pick(1, 40) : 0)
    const price = (1n << BigInt(random.pick(71, 79))) + BigInt(random.pick(0, 1e9))
    engine.publish(source, {
      validFromTimestamp: from,
      observationsTimestamp: to,
      price: random.chance(0.1) ? -price : price,
    })
    if (to > FIRST + 2 * WINDOW)
      for (const at of conventions.keys()) engine.publish(idOf(at), { observationsTimestamp: to })
    from = to + 1
  }
}

describe('averages', () => {
  test("of the engine's TWAP feeds and of the client agree to the last digit", async () => {
    const engine = await startAverages()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const rateLimit = { requests: 10_000 }
    await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, rateLimit })
    publish(engine, inForm(60, 2700))
    const reports = await allOf(client, source)
    let compared = 0
    for (const [index, { openEnd, straddling }] of conventions.entries()) {
      const ends: WindowEnds = { open: openEnd === 'start' ? 'from' : 'to', straddling }
      for (const published of await allOf(client, idOf(index))) {
        const to = published.observationsTimestamp
        const near = reports.filter(
          report => report.observationsTimestamp > to - 120 && report.validFromTimestamp <= to,
        )
        const { value, duration } = twap(near, { from: to - WINDOW, to, ends })
        expect([to, value]).toEqual([
          to,
          published.decoded.version === 'V2' && published.decoded.price,
        ])
        if (straddling === 'clip') expect(duration).toBe(WINDOW)
        else expect(duration).toBeGreaterThanOrEqual(WINDOW)
        compared++
      }
    }
    expect(compared).toBeGreaterThan(inForm(40, 10_000))
    await engine.close()
  })

  test('of the undocumented endpoint are unsigned, and agree as well', async () => {
    const engine = await startAverages()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const rateLimit = { requests: 10_000 }
    await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, rateLimit })
    publish(engine, 120)
    const reports = await allOf(client, source)
    const random = createRandom(3)
    const last = reports.at(-1)?.observationsTimestamp as number
    for (let round = 0; round < inForm(5, 50); round++) {
      const window = random.pick(1, 60)
      const end = random.pick(FIRST + 60, last)
      const unsigned = await getTwap(client, source, { window, end })
      const ends: WindowEnds = { open: 'from', straddling: 'clip' }
      const { value, reports: count } = twap(reports, { from: end - window, to: end, ends })
      expect(unsigned).toMatchObject({ isSigned: false, feedID: source, value, samples: count })
    }
    await expect(getTwap(client, idOf(9), { window: 30 })).rejects.toMatchObject({
      code: 'AUTHENTICATION',
    })
    await engine.close()
  })

  test('name what is wrong', async () => {
    const engine = await startAverages()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    await using client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    for (const at of [0, 1, 2, 5, 6])
      engine.publish(source, { validFromTimestamp: FIRST + at, observationsTimestamp: FIRST + at })
    engine.publish(idOf(0), { observationsTimestamp: FIRST + 2 })
    const reports = await allOf(client, source)
    const others = await allOf(client, idOf(0))
    const ends: WindowEnds = { open: 'to', straddling: 'clip' }
    const window = { from: FIRST, to: FIRST + 3, ends }
    expect(twap([...reports, ...reports], window)).toEqual(twap([...reports].reverse(), window))
    const cases: readonly (readonly [readonly Report<DecodedReport>[], object, RegExp])[] = [
      [[], {}, /^reports must hold at least one report/],
      [[...reports, ...others], {}, /^reports must be of one feed/],
      [reports, { to: FIRST }, /^to must be after from/],
      [reports, { ends: undefined }, /^ends is required/],
      [reports, { ends: { open: 'from' } }, /^ends.straddling must be/],
      [reports, { field: 'observationsTimestamp' }, /^field must name an exact number/],
      [reports, { from: -1 }, /^from must be at least 0/],
    ]
    for (const [given, change, message] of cases)
      expect(() => twap(given, { ...window, ...change })).toThrow(message)
    const [first] = reports as [Report<DecodedReport>]
    const copy = { ...first.toJSON(), decoded: first.decoded }
    const nan = { ...copy, decoded: { ...copy.decoded, price: Number.NaN } }
    const noReports: readonly (readonly [unknown, RegExp])[] = [
      [undefined, /^reports must be a list of reports, not undefined/],
      [{}, /^reports must be a list of reports, not object/],
      ['[]', /^reports must be a list of reports, not string/],
      [[null], /^reports\[0\] must be an object, not null/],
      [[first, {}], /^reports\[1\].feedID must be 0x and 64 hexadecimal digits/],
      [[{ ...copy, fullReport: undefined }], /^reports\[0\].fullReport is required/],
      [
        [{ ...copy, validFromTimestamp: FIRST + 1 }],
        /^reports\[0\].validFromTimestamp must be at m/,
      ],
      [[{ ...copy, decoded: undefined }], /^reports\[0\].decoded must be an object/],
      [[first, nan], /^field must name an exact number.*"price" of reports\[1\] is number/],
      [
        JSON.parse(JSON.stringify([first])),
        /is string, and there is no bigint, as in a report read/,
      ],
    ]
    for (const [given, message] of noReports)
      expect(() => twap(given as Report[], window)).toThrow(message)
    const hole = (): unknown => twap(reports, { ...window, to: FIRST + 7 })
    expect(hole).toThrow(IncompleteError)
    expect(hole).toThrow(/none holds 1700000003–1700000004$/)
    const [one] = reports as [Report<DecodedReport>]
    const other = {
      ...one,
      ...one.toJSON(),
      decoded: one.decoded,
      fullReport: reports[1]?.fullReport,
    }
    expect(() => twap([one, other as never], window)).toThrow(
      /^reports\[1\] must be observed after/,
    )
    await engine.close()
  })
})
