import { describe, expect, test } from '@jest/globals'
import type { Report } from '../../../report/report.js'
import { bad, report, stack } from '../../support/plugins/verify.js'

describe('verify in the stack of a stream', () => {
  test('takes an equal copy for a copy, verified or not, and asks once', () => {
    const { sink, settle, checks, counts, delivered } = stack()
    const first = report(1)
    sink(first)
    sink(report(1, { origin: '002' }))
    expect(checks.size).toBe(1)
    settle(first)
    sink(report(1, { origin: '003' }))
    sink(report(1, { origin: '004', signatures: '22' }))
    expect(checks.size).toBe(0)
    expect(counts).toMatchObject({ deduplicated: 3, verified: 1, unverified: 0 })
    expect(delivered).toEqual([first])
  })

  test('puts the copy that differs in the place of a first one that is refused', () => {
    const { sink, settle, counts, told, delivered } = stack()
    const [forged, next, true_] = [report(1, { blob: '66' }), report(2), report(1)]
    for (const each of [forged, next, true_]) sink(each)
    settle(next)
    settle(forged, bad)
    expect(delivered).toEqual([])
    settle(true_)
    expect(delivered).toEqual([true_, next])
    expect(told.conflicts).toEqual([])
    expect(told.errors).toHaveLength(1)
    expect(counts).toEqual({ deduplicated: 0, late: 0, verified: 2, unverified: 1 })
    sink(report(1, { origin: '003' }))
    expect(counts.deduplicated).toBe(1)
    expect(told.conflicts).toEqual([])
  })

  test('forgets both when the copy is refused as well, so that a third is delivered', () => {
    const { sink, settle, counts, delivered } = stack()
    const [forged, forgedToo, true_] = [
      report(1, { blob: '66' }),
      report(1, { blob: '77' }),
      report(1),
    ]
    sink(forged)
    sink(forgedToo)
    settle(forged, bad)
    settle(forgedToo, bad)
    sink(true_)
    settle(true_)
    expect(delivered).toEqual([true_])
    expect(counts).toEqual({ deduplicated: 0, late: 0, verified: 1, unverified: 2 })
  })

  test.each([
    ['which is refused', bad],
    ['of which nothing is found out', 'signers-unavailable'],
    ['which is good', undefined],
  ] as const)('passes a fetched copy at once before a report that waits, %s', async (_, reason) => {
    const { sink, settle, counts, told, delivered, vet } = stack()
    const [first, next] = [report(1, { blob: reason === bad ? '66' : '00' }), report(2)]
    const fetched = report(1, { source: 'backfill' })
    sink(first)
    sink(next)
    const vetting = vet([fetched])
    settle(fetched)
    for (const each of await vetting) sink(each)
    expect(delivered).toEqual([fetched])
    settle(next)
    expect(delivered).toEqual([fetched, next])
    settle(first, reason)
    expect(told.conflicts).toEqual([])
    expect(delivered).toEqual([fetched, next])
    sink(report(1, { origin: '003' }))
    expect(delivered).toHaveLength(2)
    expect(counts).toEqual(
      reason === undefined
        ? { deduplicated: 2, late: 0, verified: 3, unverified: 0 }
        : { deduplicated: 1, late: 0, verified: 2, unverified: 1 },
    )
  })

  test('tells of a conflict when both are verified, and of a forgery when the second is not', () => {
    const { sink, settle, counts, told, delivered } = stack()
    const [first, forged, twin] = [report(1), report(1, { blob: '66' }), report(1, { blob: '77' })]
    sink(first)
    settle(first)
    sink(forged)
    settle(forged, bad)
    expect(told.conflicts).toEqual([])
    sink(twin)
    expect(told.conflicts).toEqual([])
    settle(twin)
    expect(told.conflicts).toEqual([[first, twin]])
    expect(delivered).toEqual([first])
    expect(counts).toEqual({ deduplicated: 1, late: 0, verified: 2, unverified: 1 })
  })

  test('leaves no trace of a refused time: what comes after is not late', () => {
    const { sink, settle, counts } = stack()
    const [one, far] = [report(1), report(4_000_000_000)]
    sink(one)
    sink(far)
    settle(far, bad)
    sink(report(2))
    expect(counts.late).toBe(0)
  })

  test('looks into a first that was not in the sample, once another differs from it', () => {
    const draws = [0.9, 0.9]
    const { sink, settle, told, delivered } = stack({
      mode: { sample: 2 },
      random: () => draws.shift() as number,
    })
    const [forged, true_] = [report(1, { blob: '66' }), report(1)]
    sink(forged)
    expect(delivered).toEqual([forged])
    sink(true_)
    settle(true_)
    settle(forged, bad)
    expect(delivered).toEqual([forged, true_])
    expect(told.errors).toHaveLength(1)
    expect(told.conflicts).toEqual([])
  })

  test('lets nobody who invents a configuration hold up the others of a feed', () => {
    const { sink, settle, delivered } = stack()
    const invented = report(1, { digest: '9f' })
    const reports = [report(1, { origin: '002' }), report(2), report(3)]
    for (const each of [invented, ...reports]) sink(each)
    for (const each of reports) settle(each)
    expect(delivered).toEqual(reports)
    settle(invented, bad)
    const again = report(1, { origin: '003' })
    sink(again)
    expect(delivered).toEqual(reports)
  })

  test.each([
    ['in lower and upper case', '9f', '9F'],
    ['in upper and lower case', '9F', '9f'],
  ])('keeps the order of a configuration, %s', (_, one, other) => {
    const { sink, settle, delivered } = stack()
    const [first, second] = [report(1, { digest: one }), report(2, { digest: other })]
    sink(first)
    sink(second)
    settle(second)
    expect(delivered).toEqual([])
    settle(first)
    expect(delivered).toEqual([first, second])
  })

  test.each([
    ['first', 0],
    ['last', 1],
  ])(
    'delivers one of two configurations that signed an observation, whichever is verified %s',
    (_, at) => {
      const { sink, settle, delivered, counts, told } = stack()
      const both = [report(1, { digest: '9f', blob: '77' }), report(1, { origin: '002' })]
      for (const each of both) sink(each)
      const [first, last] = at === 0 ? both : [...both].reverse()
      settle(first as Report)
      expect(delivered).toEqual([first])
      settle(last as Report)
      expect(delivered).toEqual([first])
      expect(told.conflicts).toEqual([[first, last]])
      expect(counts).toMatchObject({ deduplicated: 1, verified: 2, late: 0 })
    },
  )

  test('tries the copies that differ in turn, one of each origin', () => {
    const { sink, settle, delivered, counts, told, checks } = stack()
    const forged = ['66', '77', '88'].map(blob => report(1, { blob }))
    const [one, two, three] = forged as [Report, Report, Report]
    const next = report(2)
    const true_ = report(1, { origin: '002' })
    for (const each of [...forged, true_, report(1, { origin: '003' }), next]) sink(each)
    settle(next)
    settle(one, bad)
    settle(two, bad)
    expect(checks.has(three)).toBe(false)
    settle(true_)
    expect(delivered).toEqual([true_, next])
    expect(told.conflicts).toEqual([])
    expect(counts).toEqual({ deduplicated: 2, late: 0, verified: 2, unverified: 2 })
  })

  test('keeps no more than eight copies that differ', () => {
    const { sink, settle, counts } = stack()
    const copies = Array.from({ length: 12 }, (_, at) =>
      report(1, { blob: `${at + 10}`, origin: `${at}` }),
    )
    for (const each of copies) sink(each)
    expect(counts.deduplicated).toBe(3)
    for (const each of copies.slice(0, 9)) settle(each, bad)
    expect(counts.unverified).toBe(9)
  })

  test('looks at a bounded number of others that differ from what was passed on', () => {
    const { sink, settle, checks, counts, told } = stack({ maxPending: 8 })
    told.leaks = true
    const first = report(1)
    sink(first)
    settle(first)
    for (let blob = 10; blob < 90; blob++) sink(report(1, { blob: `${blob}` }))
    expect(checks.size).toBe(4)
    expect(counts.deduplicated).toBe(76)
    expect(told.isHeld).toBe(false)
    for (const each of [...checks.keys()]) settle(each, bad)
    sink(report(1, { blob: '90' }))
    expect(checks.size).toBe(1)
  })

  test('delivers a good one once in the place of one that was not in the sample, however many copies come', () => {
    const { sink, settle, delivered, counts, told } = stack({
      mode: { sample: 2 },
      random: () => 0.9,
    })
    const forged = report(1, { blob: '66' })
    const copies = ['002', '003'].map(origin => report(1, { origin }))
    const [good, copy] = copies as [Report, Report]
    for (const each of [forged, good, copy]) sink(each)
    settle(good)
    settle(copy)
    settle(forged, bad)
    expect(delivered).toEqual([forged, good])
    expect(told.errors).toHaveLength(1)
    expect(told.conflicts).toEqual([])
    expect(counts).toEqual({ deduplicated: 1, late: 0, verified: 2, unverified: 1 })
  })

  test('remembers what was passed on, whatever is refused or waits meanwhile', () => {
    const { sink, settle, delivered } = stack({}, true, 8)
    const good = report(1)
    sink(good)
    settle(good)
    const forged = Array.from({ length: 50 }, (_, at) => report(100 + at))
    for (const each of forged) sink(each)
    sink(report(1, { origin: '002' }))
    for (const each of forged) settle(each, bad)
    sink(report(1, { origin: '003' }))
    expect(delivered).toEqual([good])
    const again = report(100)
    sink(again)
    settle(again)
    sink(report(100, { origin: '002' }))
    expect(delivered).toEqual([good, again])
  })
})
