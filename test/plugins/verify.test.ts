import { describe, expect, test } from '@jest/globals'
import type { Judge, RequestScope, Sink, StreamScope } from '../../client/types.js'
import {
  DataStreamsError,
  dedup,
  type Gap,
  ReportVerificationError,
  type VerifyOptions,
  verify,
} from '../../index.js'
import { checkAll, createVerdicts } from '../../plugins/verify/verdicts.js'
import type { Report } from '../../report/report.js'

const feedA = `0x0003${'aa'.repeat(30)}`
const feedB = `0x0003${'bb'.repeat(30)}`
const signers = {
  signers: [1, 2, 3, 4].map(each => `0x${String(each).padStart(40, '0')}`),
  f: 1,
}

/** A report as far as its stage looks at one: `blob` stands for its values, `signatures` for who signed. */
function report(
  time: number,
  {
    feedID = feedA,
    digest = '0',
    blob = '00',
    signatures = '11',
    origin = '001',
    source = 'live' as Report['source'],
  } = {},
): Report {
  const word = (value: number | string) => String(value).padStart(64, '0')
  const words = [digest, 0, 0, 'e0', 0, 0, signatures, '20', blob, 0, 0].map(word)
  return {
    feedID,
    observationsTimestamp: time,
    validFromTimestamp: time,
    fullReport: `0x${words.join('')}`,
    origin,
    source,
  } as Report
}

type Settled = (failure: Error | undefined, report: Report) => void

/** verify above dedup in a stream's stack, a verifier that settles when it is told, and what came of it. */
function stack(options: Partial<VerifyOptions> = {}, isDeduplicated = true, window = 512) {
  const checks = new Map<Report, Settled[]>()
  const delivered: Report[] = []
  const counts = { deduplicated: 0, late: 0, verified: 0, unverified: 0 }
  const told = {
    errors: [] as Error[],
    gaps: [] as Gap[],
    conflicts: [] as [Report, Report][],
    isHeld: false,
    leaks: false,
    throws: false,
  }
  const ends: (() => void)[] = []
  let judge: Judge | undefined
  const scope = {
    kind: 'stream',
    log: {},
    signal: new AbortController().signal,
    verifier: {
      check(each: Report, settled: Settled) {
        checks.set(each, [...(checks.get(each) ?? []), settled])
      },
    },
    get judge() {
      return judge
    },
    appoint: (given: Judge) => {
      judge = given
    },
    hold() {
      told.isHeld = true
      return {
        get leaks() {
          return told.leaks
        },
        release: () => {
          told.isHeld = false
        },
      }
    },
    defer: (task: () => void) => void ends.push(task),
    watch: () => () => undefined,
    count: (as: keyof typeof counts) => void counts[as]++,
    conflict: (first: Report, other: Report) => void told.conflicts.push([first, other]),
    gap: (gap: Gap) => void told.gaps.push(gap),
    fail: (error: Error) => void told.errors.push(error),
  } as unknown as StreamScope
  const top: Sink = each => {
    if (told.throws) throw new Error('above')
    delivered.push(each)
  }
  const passVerified = verify({ signers, ...options }).report?.(top, scope) as Sink
  const sink = isDeduplicated
    ? (dedup({ window }).report?.(passVerified, scope) as Sink)
    : passVerified
  function settle(each: Report, reason?: ReportVerificationError['reason']): void {
    const waiting = checks.get(each) ?? []
    if (waiting.length === 0) throw new Error('nobody asked')
    checks.delete(each)
    const failure = reason && new ReportVerificationError('refused', { reason, report: each })
    for (const settled of waiting) settled(failure, each)
  }
  return {
    sink,
    settle,
    checks,
    delivered,
    counts,
    told,
    vet: (page: readonly Report[]) => (judge as Judge).vet(page),
    end: () => {
      for (const task of ends) task()
    },
  }
}

const bad = 'unknown-signer'

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

describe('verify in the stack of a request', () => {
  test('passes nothing on unverified, even if a plugin below is late with it', async () => {
    const { delivered, failures, sink, settle, waits } = request()
    const [one, two, late] = [report(1), report(2), report(3)]
    sink(one)
    sink(two)
    await undefined
    await undefined
    sink(late)
    settle(two)
    settle(one)
    await waits[0]
    expect(delivered).toEqual([one, two])
    settle(late, bad)
    await waits[1]
    expect(delivered).toEqual([one, two])
    expect(failures).toHaveLength(1)
  })
})

/** verify in a request's stack, and what came of it. */
function request() {
  const checks = new Map<Report, Settled>()
  const delivered: Report[] = []
  const failures: Error[] = []
  const waits: Promise<unknown>[] = []
  const scope = {
    kind: 'request',
    signal: new AbortController().signal,
    verifier: { check: (each: Report, settled: Settled) => void checks.set(each, settled) },
    wait: (work: Promise<unknown>) => void waits.push(work),
    fail: (error: Error) => void failures.push(error),
  } as unknown as RequestScope
  const sink = verify({ signers }).report?.(each => void delivered.push(each), scope) as Sink
  function settle(each: Report, reason?: ReportVerificationError['reason']): void {
    checks.get(each)?.(reason && new ReportVerificationError('refused', { reason }), each)
  }
  return { delivered, failures, sink, settle, waits }
}

describe('the verdicts of a client', () => {
  test('calls a check off when the last who asked does not want to know any more', async () => {
    const calledOff: Report[] = []
    const settles = new Map<Report, (failure: undefined) => void>()
    const verdicts = createVerdicts({
      check(each, settled) {
        settles.set(each, settled)
        return () => void calledOff.push(each)
      },
      end: () => undefined,
    })
    const [one, two] = [report(1), report(2)]
    const controllers = [new AbortController(), new AbortController()] as const
    const [first] = controllers.map(({ signal }) => checkAll(verdicts, [one, two], signal))
    const heard: unknown[] = []
    void first?.then(each => heard.push(each))
    verdicts.check(two, () => void heard.push(two))
    controllers[0].abort()
    expect(calledOff).toEqual([])
    controllers[1].abort()
    expect(calledOff).toEqual([one])
    settles.get(two)?.(undefined)
    await new Promise(setImmediate)
    expect(heard).toEqual([two])
    verdicts.check(one, () => void heard.push(one))
    settles.get(one)?.(undefined)
    expect(heard).toEqual([two, one])
  })
})
