import type { Sink } from '../../../client/plugin.js'
import type { FetchedPage, Judge, StreamScope } from '../../../client/scope.js'
import {
  dedup,
  type Gap,
  ReportVerificationError,
  type VerificationFailure,
  type VerifyOptions,
  verify,
} from '../../../index.js'
import type { Report } from '../../../report/report.js'

export const feedA: string = `0x0003${'aa'.repeat(30)}`

export const feedB: string = `0x0003${'bb'.repeat(30)}`

export const signers: { signers: string[]; f: number } = {
  signers: [1, 2, 3, 4].map(each => `0x${String(each).padStart(40, '0')}`),
  f: 1,
}

interface ReportFacts {
  readonly feedID?: string
  readonly digest?: string
  readonly blob?: string
  readonly signatures?: string
  readonly origin?: string
  readonly source?: Report['source']
}

/** A report as far as its stage looks at one: `blob` stands for its values, `signatures` for who signed. */
export function report(
  time: number,
  {
    feedID = feedA,
    digest = '0',
    blob = '00',
    signatures = '11',
    origin = '001',
    source = 'live',
  }: ReportFacts = {},
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

export type Settled = (failure: Error | undefined, report: Report) => void

export interface StackUnderTest {
  sink: Sink
  settle: (each: Report, reason?: VerificationFailure) => void
  checks: Map<Report, Settled[]>
  delivered: Report[]
  counts: { deduplicated: number; late: number; verified: number; unverified: number }
  told: {
    errors: Error[]
    gaps: Gap[]
    conflicts: [Report, Report][]
    isHeld: boolean
    leaks: boolean
    throws: boolean
  }
  vet: (page: readonly Report[]) => Promise<FetchedPage>
  end: () => void
}

/** verify above dedup in a stream's stack, a verifier that settles when it is told, and what came of it. */
export function stack(
  options: Partial<VerifyOptions> = {},
  isDeduplicated = true,
  window = 512,
): StackUnderTest {
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

export const bad = 'unknown-signer'
