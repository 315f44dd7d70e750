import type { Sink } from '../../../client/contract/plugin.js'
import type { StreamScope } from '../../../client/contract/scope.js'
import type { ClientScope } from '../../../core/scope.js'
import {
  dedup,
  type Gap,
  ReportVerificationError,
  type VerificationFailure,
  type VerifyOptions,
  verify,
} from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { type ReportVerifier, reportVerifier } from '../../../report/verifier.js'

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

/** The parts of a report that the stage reads: `blob` stands for its values, `signatures` for its signers. */
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
  /** Injects a report, as `continuity` does. */
  inject: (report: Report) => Promise<void>
  settle: (each: Report, reason?: VerificationFailure) => void
  checks: Map<Report, Settled[]>
  /** How many checks were started. */
  checkCount: () => number
  connect: (origin: string) => void
  delivered: Report[]
  counts: { deduplicated: number; verified: number; verificationFailed: number }
  stream: {
    errors: Error[]
    gaps: Gap[]
    conflicts: [Report, Report][]
    isPaused: boolean
    hasUnpausable: boolean
    throws: boolean
    /** Called with each report that is delivered. */
    onDelivered: () => void
    /** The stream is about to end by itself. */
    emitEnding: () => void
  }
  end: () => void
}

/** The services of a client whose stack has these plugins, with a verifier of the test's own. */
export function services(
  plugin: ReturnType<typeof verify>,
  names: readonly string[],
  verifier: ReportVerifier,
): { find: (key: object) => unknown } {
  const provided = new Map<object, unknown>()
  plugin.setup?.({
    kind: 'client',
    stack: names.map(name => ({ name, hooks: ['report'], brings: [] })),
    provide: (key: object, service: unknown) => void provided.set(key, service),
    place: () => undefined,
    has: (capability: string) => capability === 'unique' && names.includes('dedup'),
    defer: () => undefined,
  } as unknown as ClientScope)
  Object.assign(provided.get(reportVerifier) as ReportVerifier, { check: verifier.check })
  return { find: key => provided.get(key) }
}

/** verify below dedup in a stream's stack, with a verifier that the test settles, and the events of the stream. */
export function stack(
  options: Partial<VerifyOptions> = {},
  isDeduplicated = true,
  window = 512,
): StackUnderTest {
  const checks = new Map<Report, Settled[]>()
  let checkCount = 0
  const delivered: Report[] = []
  const counts = { deduplicated: 0, verified: 0, verificationFailed: 0 }
  const stream = {
    errors: [] as Error[],
    gaps: [] as Gap[],
    conflicts: [] as [Report, Report][],
    isPaused: false,
    hasUnpausable: false,
    throws: false,
    onDelivered: (): void => undefined,
    emitEnding(): void {
      for (const listener of endings) listener()
    },
  }
  const ends: (() => void)[] = []
  const endings: (() => void)[] = []
  const watchers: ((change: object) => void)[] = []
  const controller = new AbortController()
  const verifier: ReportVerifier = {
    check(each, settled) {
      checkCount++
      checks.set(each, [...(checks.get(each) ?? []), settled])
      return undefined
    },
  }
  const plugin = verify({ signers, ...options })
  let work: Promise<unknown>[] = []
  const scope = {
    kind: 'stream',
    log: {},
    signal: controller.signal,
    client: services(plugin, isDeduplicated ? ['dedup', 'verify'] : ['verify'], verifier),
    flow: {
      pause() {
        stream.isPaused = true
        return {
          get hasUnpausable() {
            return stream.hasUnpausable
          },
          resume: () => {
            stream.isPaused = false
          },
        }
      },
    },
    defer: (task: () => void) => void ends.push(task),
    connections: {
      watch(listener: (change: object) => void) {
        watchers.push(listener)
        return () => undefined
      },
    },
    count: (as: keyof typeof counts) => void counts[as]++,
    cursors: { get: () => undefined },
    events: {
      on(event: string, listener: () => void) {
        if (event === 'ending') endings.push(listener)
        return () => undefined
      },
      emit(event: string, value: unknown) {
        if (event === 'gap') stream.gaps.push(value as Gap)
        else if (event === 'error') stream.errors.push(value as Error)
        else if (event === 'conflict') {
          const { first, other } = value as { first: Report; other: Report }
          stream.conflicts.push([first, other])
        }
      },
    },
    waitUntil: (each: Promise<unknown>) => void work.push(each),
  } as unknown as StreamScope
  const top: Sink = each => {
    if (stream.throws) throw new Error('above')
    delivered.push(each)
    stream.onDelivered()
  }
  const next = isDeduplicated ? (dedup({ window }).report?.(top, scope) as Sink) : top
  const sink = plugin.report?.(next, scope) as Sink
  async function inject(each: Report): Promise<void> {
    work = []
    sink(each)
    await Promise.all(work)
  }
  function settle(each: Report, reason?: ReportVerificationError['reason']): void {
    const waiting = checks.get(each) ?? []
    if (waiting.length === 0) throw new Error('the report is not being checked')
    checks.delete(each)
    const failure = reason && new ReportVerificationError('refused', { reason, report: each })
    for (const settled of waiting) settled(failure, each)
  }
  return {
    sink,
    inject,
    settle,
    checks,
    checkCount: () => checkCount,
    connect: origin => {
      for (const each of watchers) each({ type: 'connected', origin })
    },
    delivered,
    counts,
    stream,
    end: () => {
      controller.abort(new Error('over'))
      for (const task of ends) task()
    },
  }
}

export const bad = 'unknown-signer'
