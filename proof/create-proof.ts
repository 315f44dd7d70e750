import type { Client } from '../client/client.js'
import { NoReportError } from '../client/request/report-at.js'
import { ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  checkObject,
  checkSignal,
  checkText,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import { decodeReport } from '../plugins/decoders/versions.js'
import { checkTime, parseFeedID } from '../report/feed-id.js'
import type { Report } from '../report/report.js'
import { findSignedLater, type SignedLater } from '../report/signing-order.js'
import {
  type AverageClaim,
  MAX_REPORTS,
  type PriceClaim,
  type Proof,
  ProofError,
} from './format.js'
import { checkEnds, findField, priceOf } from './twap.js'
import {
  ContradictionError,
  inOrder,
  rangeOf,
  type Tiling,
  type TimeRange,
  tile,
  type WindowEnds,
  weigh,
} from './windows.js'

interface ProofFacts {
  /** The feed. */
  readonly feedID: string
  /** The field that is the price. @default the version's price */
  readonly field?: string
  /**
   * Whether a proof is made of reports that the network signed later than their time. @default
   * false
   */
  readonly allowSignedLater?: boolean
  /** Aborting it ends the requests. */
  readonly signal?: AbortSignal
}

/** The price at a moment. */
export interface PriceProofOptions extends ProofFacts {
  /** The moment, in the feed's unit. */
  readonly at: number
}

/** The average of a price over a window. */
export interface AverageProofOptions extends ProofFacts {
  /** The start of the window, in the feed's unit. */
  readonly from: number
  /** The end of the window, in the feed's unit. */
  readonly to: number
  /** How the ends of the window count. */
  readonly ends: WindowEnds
}

const time = number({ min: 0, whole: true })
const facts = {
  feedID: (_field: string, value: unknown) => parseFeedID(value),
  field: optional(checkText),
  allowSignedLater: withDefault(false, checkBoolean),
  signal: checkSignal,
}
const priceSchema = { ...facts, at: time } satisfies Schema<PriceProofOptions>
const averageSchema = {
  ...facts,
  from: time,
  to: time,
  ends: checkEnds,
} satisfies Schema<AverageProofOptions>

/** The options of one kind of proof. They count as absent if they are undefined. */
const ofOneKind: readonly string[] = ['at', 'from', 'to', 'ends']

/** What a proof needs of a client. */
export type ProofClient = Pick<Client, 'getReportsBetween' | 'getReportsPage'>

/**
 * Fetches the signed reports of a moment or a window, and makes a proof of the price at the moment,
 * or of the average over the window. `checkProof` checks it, without the service.
 *
 * A range that the service never stored stands in the proof as `missing`. The function rejects with
 * NoReportError if a report may still come, and with ProofError, whose `reason` is `order`, if the
 * service has two reports of one time that differ.
 */
export async function createProof(
  client: ProofClient,
  options: PriceProofOptions | AverageProofOptions,
): Promise<Proof> {
  const all = Object.entries(checkObject('options', options))
  const isGiven = ([name, value]: [string, unknown]): boolean =>
    value !== undefined || !ofOneKind.includes(name)
  const given = Object.fromEntries(all.filter(isGiven))
  const isWindow = 'from' in given || 'to' in given
  if ('at' in given === isWindow)
    throw new ValidationError('either at, or from and to, must be given')
  if (!isWindow) {
    const read = readOptions('createProof', given as unknown as PriceProofOptions, priceSchema)
    const { feedID, at, field } = read
    checkTime('at', at, [feedID])
    const range = { from: at, to: at }
    const found = await collect(client, feedID, range, read)
    return proofOf(feedID, found, priceClaim(found.tiling, at, findField(feedID, field)))
  }
  const read = readOptions('createProof', given as unknown as AverageProofOptions, averageSchema)
  const { feedID, field, signal: _, allowSignedLater: __, ...window } = read
  checkTime('from', window.from, [feedID])
  checkTime('to', window.to, [feedID])
  const range = rangeOf(window.from, window.to, window.ends)
  const found = await collect(client, feedID, range, read)
  return proofOf(feedID, found, averageClaim(found.tiling, window, findField(feedID, field)))
}

/** The reports of a proof. */
interface Collected {
  readonly reports: readonly Report[]
  readonly neighbours: readonly Report[]
  readonly tiling: Tiling<Report>
}

function proofOf(
  feedID: string,
  { reports, neighbours, tiling: { missing } }: Collected,
  claim: Proof['claim'],
): Proof {
  const textOf = ({ fullReport }: Report): string => fullReport
  return {
    format: 'sluice-proof',
    version: 2,
    feedID,
    claim,
    missing,
    reports: reports.map(textOf),
    neighbours: neighbours.map(textOf),
  }
}

/** The bytes of a report that a claim is computed from. */
export type Evidence = Pick<
  Report,
  'feedID' | 'fullReport' | 'validFromTimestamp' | 'observationsTimestamp'
>

/** The price is read from the signed bytes, whatever decoders a client has. */
export function signedPrice({ feedID, fullReport }: Evidence, field: string): bigint {
  return priceOf({ decoded: decodeReport(fullReport, feedID) }, field)
}

/** The claim about a moment that these reports prove. */
export function priceClaim({ parts }: Tiling<Evidence>, at: number, field: string): PriceClaim {
  const [part] = parts
  const value = part === undefined ? null : String(signedPrice(part.report, field))
  return { kind: 'price', at, field, value }
}

/** The claim about a window that these reports prove. */
export function averageClaim(
  tiling: Tiling<Evidence>,
  { from, to, ends }: Pick<AverageClaim, 'from' | 'to' | 'ends'>,
  field: string,
): AverageClaim {
  const { sum, duration } = weigh(tiling, ends, report => signedPrice(report, field))
  const value = duration === 0 ? null : String(sum / BigInt(duration))
  return { kind: 'average', from, to, ends, field, value, sum: String(sum), duration }
}

/**
 * Divides a range among its reports. Throws ProofError, whose message begins with `before`, if two
 * contradict each other.
 */
export function tileOrRefuse<Each extends Evidence>(
  reports: readonly Each[],
  range: TimeRange,
  before = '',
): Tiling<Each> {
  try {
    return tile(reports, range)
  } catch (error) {
    if (!(error instanceof ContradictionError)) throw error
    throw new ProofError('order', `${before}${error.message}`, error)
  }
}

/** The reports of a range, and the neighbours of a missing start or end. */
async function collect(
  client: ProofClient,
  feedID: string,
  range: TimeRange,
  { signal, allowSignedLater }: Pick<ProofFacts, 'signal' | 'allowSignedLater'>,
): Promise<Collected> {
  const request = signal && { signal }
  const found: Report[] = []
  const between = client.getReportsBetween(feedID, range.from, range.to, request)
  for await (const report of between) {
    if (found.push(report) > MAX_REPORTS)
      throw new ValidationError(
        `to must be nearer to from: the window has more than the ${MAX_REPORTS} reports of a proof`,
      )
  }
  const pending = between.missing?.find(({ cause }) => cause === 'not-yet')
  if (pending !== undefined) throw new NoReportError('not-yet', feedID, pending.to, undefined)
  const reports = [...inOrder(found)]
  const contradiction = 'the service has reports that contradict each other: '
  const tiling = tileOrRefuse(reports, range, contradiction)
  const { missing } = tiling
  if (missing[0]?.from === range.from)
    reports.unshift(await lastBefore(client, feedID, range.from, request))
  if (missing.at(-1)?.to === range.to) {
    const [after] = await client.getReportsPage(feedID, range.to + 1, 1, request)
    if (after === undefined) throw new NoReportError('not-yet', feedID, range.to, undefined)
    reports.push(after)
  }
  const neighbours = await neighboursOf(client, reports, request)
  if (allowSignedLater === true) return { reports, neighbours, tiling }
  for (const report of reports)
    if (report.signedLater !== undefined)
      refuseSignedLater('the service has', report, report.signedLater)
  findSignedLater(inOrder([...reports, ...neighbours]), (report, facts) => {
    if (reports.includes(report)) refuseSignedLater('the service has', report, facts)
  })
  return { reports, neighbours, tiling }
}

/**
 * The report before the first, and the first report after the last that was signed at its time, if
 * the service has them.
 */
async function neighboursOf(
  client: ProofClient,
  reports: readonly Report[],
  request: { readonly signal: AbortSignal } | undefined,
): Promise<readonly Report[]> {
  const first = reports[0] as Report
  const last = reports.at(-1) as Report
  const start = Math.max(0, first.validFromTimestamp - 1)
  const [[before], later] = await Promise.all([
    client.getReportsPage(first.feedID, start, 1, request),
    client.getReportsPage(first.feedID, last.observationsTimestamp + 1, LATER, request),
  ])
  // A report that was itself signed later shows nothing of those before it.
  const after = later.find(({ signedLater }) => signedLater === undefined) ?? later[0]
  const isBefore =
    before !== undefined && before.observationsTimestamp < first.observationsTimestamp
  return [...(isBefore ? [before] : []), ...(after === undefined ? [] : [after])]
}

/** Throws for a report that was signed later than its time. */
export function refuseSignedLater(
  place: string,
  { observationsTimestamp }: Evidence,
  { after, before }: SignedLater,
): never {
  const until = before === undefined ? '' : ` and before one of ${new Date(before).toISOString()}`
  throw new ProofError(
    'signed-later',
    `${place} a report of ${observationsTimestamp} that was signed after a report of ${new Date(after).toISOString()}${until}`,
  )
}

/** Among how many later reports one is looked for that was signed at its time. */
const LATER = 100
/** How far back the report before a missing range is looked for, in units of the feed. */
const LOOK_BACK = [60, 3600, 86_400, 2_592_000, 2_592_000_000]

/**
 * The last report that was observed before a time. The service answers with the first report from a
 * time on, so the time is halved until two answers differ.
 */
async function lastBefore(
  client: ProofClient,
  feedID: string,
  time: number,
  request: { readonly signal: AbortSignal } | undefined,
): Promise<Report> {
  const first = async (from: number): Promise<Report | undefined> => {
    const [report] = await client.getReportsPage(feedID, from, 1, request)
    return report !== undefined && report.observationsTimestamp < time ? report : undefined
  }
  for (const back of LOOK_BACK) {
    let low = Math.max(0, time - back)
    let found = await first(low)
    if (found === undefined) continue
    let high = time
    while (found.observationsTimestamp + 1 < high) {
      low = found.observationsTimestamp + 1
      const middle = Math.max(low, Math.floor((low + high) / 2))
      const report = await first(middle)
      if (report === undefined) high = middle
      else found = report
    }
    return found
  }
  throw new ValidationError(
    `at or from must be after the first report of the feed: the service has none before ${time}`,
  )
}
