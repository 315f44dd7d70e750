import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Report } from '../../../report/report.js'
import { bad, report, stack } from '../../support/plugins/verify.js'

describe('verify in the stack of a stream', () => {
  test('verifies a report once, however many copies arrive before and after the check', () => {
    const { sink, settle, checkCount, counts, delivered } = stack()
    const first = report(1)
    sink(first)
    sink(report(1, { origin: '002' }))
    sink(report(1, { origin: '003', signatures: '22' }))
    settle(first)
    sink(report(1, { origin: '004' }))
    sink(report(1, { origin: '005', signatures: '33' }))
    expect(checkCount()).toBe(1)
    expect(counts).toMatchObject({ deduplicated: 4, verified: 1, verificationFailed: 0 })
    expect(delivered).toEqual([first])
  })

  test.each([1, 2, 3, 4, 5])('verifies each report once where %i origins bring it', origins => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(origins - 1), fc.boolean()), { minLength: 200, maxLength: 400 }),
        steps => {
          const { sink, settle, checkCount, checks, connect, counts, delivered } = stack()
          const positions = Array.from({ length: origins }, () => 0)
          positions.forEach((_, origin) => void connect(`${origin}`))
          for (const [origin, isVerdict] of steps) {
            const [check] = checks.keys()
            if (isVerdict && check !== undefined) settle(check)
            const time = positions[origin] as number
            // An origin is at most eight reports ahead of the last one.
            if (time >= Math.min(...positions) + 8) continue
            positions[origin] = time + 1
            sink(report(time, { origin: `${origin}`, signatures: `${origin}1` }))
          }
          for (const each of [...checks.keys()]) settle(each)
          const times = delivered.map(each => each.observationsTimestamp)
          expect(times).toEqual(Array.from({ length: Math.max(...positions) }, (_, time) => time))
          expect(checkCount()).toBe(delivered.length)
          expect(counts.verified).toBe(delivered.length)
        },
      ),
      { numRuns: 50 },
    )
  })

  test('remembers one report of a feed until copies can arrive, and eight from then on', () => {
    const { sink, settle, checkCount, connect, checks } = stack()
    function publish(from: number, to: number): void {
      for (let time = from; time <= to; time++) {
        sink(report(time))
        for (const each of [...checks.keys()]) settle(each)
      }
    }
    connect('001')
    connect('001')
    publish(1, 9)
    publish(8, 8)
    expect(checkCount()).toBe(10)
    connect('002')
    publish(10, 17)
    publish(10, 17)
    expect(checkCount()).toBe(18)
    publish(18, 18)
    publish(10, 10)
    expect(checkCount()).toBe(20)
  })

  test('replaces a rejected first report by the copy that differs', () => {
    const { sink, settle, counts, stream, delivered } = stack()
    const [forged, next, true_] = [report(1, { blob: '66' }), report(2), report(1)]
    for (const each of [forged, next, true_]) sink(each)
    settle(next)
    settle(forged, bad)
    expect(delivered).toEqual([])
    settle(true_)
    expect(delivered).toEqual([true_, next])
    expect(stream.conflicts).toEqual([])
    expect(stream.errors).toHaveLength(1)
    expect(counts).toEqual({ deduplicated: 0, verified: 2, verificationFailed: 1 })
    sink(report(1, { origin: '003' }))
    expect(counts.deduplicated).toBe(1)
    expect(stream.conflicts).toEqual([])
  })

  test('forgets both when the copy is rejected, too, so that a third is delivered', () => {
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
    expect(counts).toEqual({ deduplicated: 0, verified: 1, verificationFailed: 2 })
  })

  test('verifies the next copy where the first is rejected, and not the same bytes again', async () => {
    const { sink, inject, settle, checkCount, counts, stream, delivered } = stack()
    const signedBy = (signatures: string, origin: string) => report(1, { signatures, origin })
    const [forged, next] = [signedBy('66', '001'), report(2)]
    const [true_, forgedToo] = [signedBy('11', '003'), signedBy('77', '002')]
    sink(forged)
    sink(next)
    for (const each of [signedBy('66', '005'), forgedToo, true_, signedBy('11', '004')]) sink(each)
    const same = inject(report(1, { signatures: '66', source: 'backfill' }))
    const good = inject(report(1, { signatures: '22', source: 'backfill' }))
    settle(next)
    settle(forged, bad)
    await expect(same).rejects.toMatchObject({ reason: bad, isRetryable: false })
    settle(forgedToo, bad)
    expect(delivered).toEqual([])
    settle(true_)
    await good
    expect(delivered).toEqual([true_, next])
    expect(checkCount()).toBe(4)
    expect(stream.errors).toHaveLength(2)
    expect(counts).toEqual({ deduplicated: 2, verified: 2, verificationFailed: 4 })
  })

  test('lets one copy of each origin wait for the check, and eight in all', () => {
    const { sink, settle, checks, checkCount, counts } = stack()
    const forged = report(1, { signatures: '66' })
    sink(forged)
    for (const origin of ['001', '001', '002', '002']) sink(report(1, { origin, signatures: '77' }))
    expect(counts.deduplicated).toBe(2)
    for (let at = 3; at < 15; at++) sink(report(1, { origin: `${at}`, signatures: `${at}0` }))
    expect(counts.deduplicated).toBe(8)
    settle(forged, bad)
    while (checks.size > 0) for (const each of [...checks.keys()]) settle(each, bad)
    // Two copies have the same bytes.
    expect(checkCount()).toBe(8)
    expect(counts).toMatchObject({ deduplicated: 8, verificationFailed: 9 })
  })

  test('passes on no copy with unverified signatures, even where dedup has forgotten the report', () => {
    const { sink, settle, checkCount, connect, delivered } = stack({}, true, 8)
    function publish(...reports: Report[]): void {
      for (const each of reports) {
        sink(each)
        settle(each)
      }
    }
    publish(...[1, 2, 3, 4, 5, 6, 7, 8].map(time => report(time)))
    connect('001')
    connect('002')
    publish(report(1, { origin: '002' }), report(9))
    const before = [...delivered]
    sink(report(1, { origin: '002', signatures: '66' }))
    expect(checkCount()).toBe(10)
    expect(delivered).toEqual(before)
  })

  test('verifies every copy in a stack without dedup, unless its bytes are verified', () => {
    const { sink, settle, checkCount, delivered, counts } = stack({}, false)
    const reports = [
      report(1),
      report(1, { origin: '002' }),
      report(1, { origin: '003', signatures: '22' }),
      report(1, { origin: '003', signatures: '66' }),
    ] as const
    for (const each of reports.slice(0, 3)) sink(each)
    expect(checkCount()).toBe(2)
    settle(reports[2])
    expect(delivered).toEqual([])
    settle(reports[0])
    expect(delivered).toEqual(reports.slice(0, 3))
    sink(report(1, { origin: '004' }))
    expect(checkCount()).toBe(2)
    expect(delivered).toHaveLength(4)
    sink(report(1, { origin: '004', signatures: '66' }))
    expect(checkCount()).toBe(3)
    expect(delivered).toHaveLength(4)
    expect(counts.deduplicated).toBe(0)
  })

  test('emits a conflict when both are verified, and an error when the second is forged', () => {
    const { sink, settle, counts, stream, delivered } = stack()
    const [first, forged, twin] = [report(1), report(1, { blob: '66' }), report(1, { blob: '77' })]
    sink(first)
    settle(first)
    sink(forged)
    settle(forged, bad)
    expect(stream.conflicts).toEqual([])
    sink(twin)
    expect(stream.conflicts).toEqual([])
    settle(twin)
    expect(stream.conflicts).toEqual([[first, twin]])
    expect(delivered).toEqual([first])
    expect(counts).toEqual({ deduplicated: 1, verified: 2, verificationFailed: 1 })
  })

  test('verifies a report that differs from one that was not chosen, and that one, too, if it is good', () => {
    const draws = [0.9]
    const { sink, settle, stream, checkCount, counts, delivered } = stack({
      mode: { sample: 2 },
      random: () => draws.shift() as number,
    })
    const [first, forged, true_] = [
      report(1, { blob: '66' }),
      report(1, { blob: '77', origin: '002' }),
      report(1, { origin: '003' }),
    ]
    sink(first)
    expect(delivered).toEqual([first])
    sink(forged)
    settle(forged, bad)
    expect(checkCount()).toBe(1)
    expect(stream.conflicts).toEqual([])
    sink(true_)
    settle(true_)
    expect(stream.conflicts).toEqual([[first, true_]])
    sink(report(1, { blob: '66', origin: '004' }))
    expect(counts.deduplicated).toBe(2)
    settle(first, bad)
    sink(report(1, { blob: '66', origin: '005' }))
    expect(checkCount()).toBe(3)
    expect(delivered).toEqual([first])
    expect(stream.errors).toHaveLength(2)
    expect(counts).toMatchObject({ deduplicated: 3, verified: 1, verificationFailed: 2 })
  })

  test('drops a report that was not chosen if it proves to be forged before it is passed on', () => {
    const draws = [0.1, 0.9]
    const { sink, settle, stream, delivered } = stack({
      mode: { sample: 2 },
      random: () => draws.shift() as number,
    })
    const [chosen, forged, true_] = [report(1), report(2, { blob: '66' }), report(2)]
    for (const each of [chosen, forged, true_]) sink(each)
    settle(true_)
    settle(chosen)
    expect(delivered).toEqual([chosen])
    settle(forged, bad)
    expect(delivered).toEqual([chosen, true_])
    expect(stream.conflicts).toEqual([])
  })

  test('remembers an observation once, however many of its reports are passed on', () => {
    const { sink, settle, checkCount, delivered } = stack()
    const first = [report(1), report(1, { blob: '66' })]
    for (const each of [...first, ...[2, 3, 4, 5, 6, 7, 8].map(time => report(time))]) {
      sink(each)
      settle(each)
    }
    for (let time = 1; time <= 8; time++) sink(report(time, { origin: '002' }))
    expect(checkCount()).toBe(9)
    expect(delivered).toHaveLength(8)
  })

  test('does not delay a feed for an invented configuration', () => {
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
      const { sink, settle, delivered, counts, stream } = stack()
      const both = [report(1, { digest: '9f', blob: '77' }), report(1, { origin: '002' })]
      for (const each of both) sink(each)
      const [first, last] = at === 0 ? both : [...both].reverse()
      settle(first as Report)
      expect(delivered).toEqual([first])
      settle(last as Report)
      expect(delivered).toEqual([first])
      expect(stream.conflicts).toEqual([[first, last]])
      expect(counts).toMatchObject({ deduplicated: 1, verified: 2 })
    },
  )

  test('verifies reports that differ beside the first, one of each origin', () => {
    const { sink, settle, delivered, counts, stream, checks } = stack()
    const forged = ['66', '77', '88'].map(blob => report(1, { blob }))
    const [one, two, three] = forged as [Report, Report, Report]
    const next = report(2)
    const true_ = report(1, { origin: '002' })
    for (const each of [...forged, true_, report(1, { origin: '003' }), next]) sink(each)
    expect(checks.has(three)).toBe(false)
    settle(next)
    settle(true_)
    settle(two, bad)
    settle(one, bad)
    expect(delivered).toEqual([true_, next])
    expect(stream.conflicts).toEqual([])
    expect(counts).toEqual({ deduplicated: 2, verified: 2, verificationFailed: 2 })
  })

  test('verifies no more than eight reports that differ from the first', () => {
    const { sink, settle, counts } = stack()
    const copies = Array.from({ length: 12 }, (_, at) =>
      report(1, { blob: `${at + 10}`, origin: `${at}` }),
    )
    for (const each of copies) sink(each)
    expect(counts.deduplicated).toBe(3)
    for (const each of copies.slice(0, 9)) settle(each, bad)
    expect(counts.verificationFailed).toBe(9)
  })

  test('verifies a bounded number of reports that differ from the one passed on', () => {
    const { sink, settle, checks, counts, stream } = stack({ maxPending: 16 })
    stream.hasUnpausable = true
    const first = report(1)
    sink(first)
    settle(first)
    for (let blob = 10; blob < 50; blob++) sink(report(1, { blob: `${blob}` }))
    expect(checks.size).toBe(1)
    for (let blob = 50; blob < 90; blob++) sink(report(1, { blob: `${blob}`, origin: `${blob}` }))
    expect(checks.size).toBe(8)
    expect(counts.deduplicated).toBe(72)
    expect(stream.isPaused).toBe(false)
    for (const each of [...checks.keys()]) settle(each, bad)
    sink(report(1, { blob: '90' }))
    expect(checks.size).toBe(1)
    expect(stream.conflicts).toEqual([])
  })

  test('delivers an observation once if its first report was not chosen, however many copies arrive', () => {
    const { sink, settle, checkCount, delivered, counts, stream } = stack({
      mode: { sample: 2 },
      random: () => 0.9,
    })
    const forged = report(1, { blob: '66' })
    const copies = ['002', '003'].map(origin => report(1, { origin }))
    const [good, copy] = copies as [Report, Report]
    for (const each of [forged, good, copy]) sink(each)
    settle(good)
    settle(forged, bad)
    sink(report(1, { origin: '004' }))
    expect(checkCount()).toBe(2)
    expect(delivered).toEqual([forged])
    expect(stream.errors).toHaveLength(1)
    expect(counts).toEqual({ deduplicated: 3, verified: 1, verificationFailed: 1 })
  })

  test('remembers the reports passed on, whatever is rejected or waits meanwhile', () => {
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
