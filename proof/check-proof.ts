import { isStreamsError, ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  checkSignal,
  kindOf,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import { decodeReport } from '../plugins/decoders/versions.js'
import { type Quorum, ruleSchema, type VerificationRules } from '../plugins/verify/options.js'
import { nextTurn } from '../plugins/verify/recovery.js'
import { isRejection, readClaim as readSignedClaim } from '../plugins/verify/rule.js'
import { type Verification, verifyReport } from '../plugins/verify/verify-report.js'
import { inMilliseconds, isFeedID, parseFeedID } from '../report/feed-id.js'
import { isSameBlob } from '../report/full-report.js'
import { type SignedLater, SigningOrder, signingOf } from '../report/signing-order.js'
import {
  averageClaim,
  type Evidence,
  priceClaim,
  refuseSignedLater,
  signedPrice,
  tileOrRefuse,
} from './create-proof.js'
import {
  type AverageClaim,
  MAX_CHARACTERS,
  MAX_REPORTS,
  type PriceClaim,
  type Proof,
  ProofError,
  type ProofFailure,
} from './format.js'
import { rangeOf, type Tiling, type TimeRange, tile, type WindowEnds } from './windows.js'

/** Options of `checkProof`. */
export interface CheckProofOptions extends Pick<VerificationRules, 'signers' | 'curveLibrary'> {
  /** How many signatures a report needs. @default 'at-least' */
  readonly quorum?: Quorum
  /**
   * Further signed reports, as `fullReport`. A proof is refuted by a report of its feed that holds
   * a missing range, or to which a time of the proof belongs. A report that the network signed
   * later than its time does the latter only with `allowSignedLater`. The sequence
   * numbers of all reports of the network, whatever their feed, tell when the reports of the proof
   * were signed. Reports that are not verified count for nothing. @default none
   */
  readonly against?: readonly string[]
  /**
   * Whether a proof counts that has reports which the network signed later than their time. The
   * result then names them. @default false
   */
  readonly allowSignedLater?: boolean
  /**
   * How many milliseconds after its time each report must have been signed, as a later report
   * shows. @default no limit
   */
  readonly signedWithin?: number
  /** Whether a proof with missing ranges is refused. @default false */
  readonly complete?: boolean
  /** The feed of which the proof must be. @default any feed */
  readonly feedID?: string
  /** Aborting it ends the check. */
  readonly signal?: AbortSignal
}

/** The signed reports between which no report of the proof is. */
export interface HoleEdges {
  /** The window of the report before the hole. */
  readonly before: TimeRange
  /** The window of the report after the hole. */
  readonly after: TimeRange
}

/** A report of a proof that its network signed later than its time. */
export interface LateReport extends SignedLater {
  /** The index of the report in the proof. */
  readonly index: number
  /** The time of its observations, in the feed's unit. */
  readonly observationsTimestamp: number
}

/** What a proof proves, and what it rests on. */
export interface CheckedProof {
  /** The feed, in lower case. */
  readonly feedID: string
  /** The claim. Its numbers were computed again from the signed bytes. */
  readonly claim: PriceClaim | AverageClaim
  /** The price or the average; undefined if no report holds the moment or window. */
  readonly value: bigint | undefined
  /** The times of the moment or window, both included, in the feed's unit. */
  readonly range: TimeRange
  /** The ranges that no report of the proof holds. */
  readonly missing: readonly TimeRange[]
  /** The windows of the signed reports before and after each range of `missing`. */
  readonly edges: readonly HoleEdges[]
  /** True if each time of the moment or window is in the window of a report. */
  readonly isComplete: boolean
  /** The number of reports. */
  readonly reports: number
  /** How many reports of `against` are of the feed and signed, and did not refute the proof. */
  readonly witnesses: number
  /** The addresses that signed at least one of the reports, in lower case. */
  readonly signers: readonly string[]
  /** The reports that the network signed later than their time. Empty unless you allow them. */
  readonly signedLater: readonly LateReport[]
  /**
   * The time of a report, in milliseconds of Unix time, before which all reports were signed that
   * are not in `signedLater`. Undefined if the proof does not show it for each of them.
   */
  readonly signedBefore: number | undefined
  /** What the signed bytes show, in sentences. */
  readonly proved: readonly string[]
  /** What the check takes for granted, in sentences. */
  readonly assumed: readonly string[]
  /** What no proof of this kind can show, in sentences. */
  readonly unproved: readonly string[]
}

const schema = {
  signers: ruleSchema.signers,
  quorum: ruleSchema.quorum,
  curveLibrary: ruleSchema.curveLibrary,
  against: optional((field, value) => {
    if (!Array.isArray(value) || !value.every(each => typeof each === 'string'))
      throw new ValidationError(`${field} must be a list of signed reports, not ${kindOf(value)}`)
    return value as readonly string[]
  }),
  allowSignedLater: withDefault(false, checkBoolean),
  signedWithin: optional(number({ min: 0 })),
  complete: withDefault(false, checkBoolean),
  feedID: optional((_field, value) => parseFeedID(value)),
  signal: checkSignal,
} satisfies Schema<CheckProofOptions>

/**
 * Checks a proof, given as an object or as JSON text, against the signers. Everything is computed
 * again from the signed bytes: signatures, feed, order, windows, ends and the claimed number. It
 * uses no network, unless `signers` does. Rejects with ProofError.
 */
export async function checkProof(
  given: Proof | string,
  options: CheckProofOptions,
): Promise<CheckedProof> {
  const {
    against = [],
    allowSignedLater,
    signedWithin,
    signal,
    complete,
    feedID: wanted,
    ...rules
  } = readOptions('checkProof', options, schema)
  const proof = readProof(given)
  if (wanted !== undefined && wanted !== proof.feedID)
    refuse('wrong-feed', `feedID must be ${wanted}, not ${proof.feedID}`)
  const { feedID, claim, missing } = proof
  const verify = (fullReport: string): Promise<Verification> =>
    verifyReport(fullReport, { ...rules, ...(signal && { signal }) })

  const neighbours = proof.neighbours?.map((fullReport, index) =>
    readEvidence(`neighbours[${index}]`, feedID, fullReport),
  )
  const reports = proof.reports.map((fullReport, index) =>
    readEvidence(`reports[${index}]`, feedID, fullReport),
  )
  checkField(reports, claim.field)
  const range = claim.kind === 'price' ? { from: claim.at, to: claim.at } : rangeOfAverage(claim)
  const tiling = tileOrRefuse(reports, range)
  if (JSON.stringify(tiling.missing) !== JSON.stringify(missing))
    refuse(
      'tiling',
      `missing must be ${describe(tiling.missing)}, the ranges that its reports leave open, not ${describe(missing)}`,
    )
  checkEnds(reports, tiling, range)
  if (complete && missing.length > 0)
    refuse(
      'tiling',
      `missing must be empty, as you asked for a complete proof: ${describe(missing)}`,
    )
  // The signatures come last, since they take longest.
  const signers = new Set<string>()
  const order = new SigningOrder()
  for (const [index, { fullReport }] of reports.entries()) {
    const verified = await verify(fullReport).catch(refuseReport(`reports[${index}]`))
    for (const signer of verified.signers) signers.add(signer)
    place(order, verified)
    if (index % REPORTS_AT_ONCE === REPORTS_AT_ONCE - 1) await yieldToOthers(signal)
  }
  for (const [index, { fullReport }] of (neighbours ?? []).entries())
    place(order, await verify(fullReport).catch(refuseReport(`neighbours[${index}]`)))
  const again =
    claim.kind === 'price'
      ? priceClaim(tiling, claim.at, claim.field)
      : averageClaim(tiling, claim, claim.field)
  if (JSON.stringify(again) !== JSON.stringify(claim)) refuseValue(claim, again)
  const witnesses = (neighbours ?? []).map((report, index) => {
    return { name: `neighbours[${index}]`, report }
  })
  for (const [index, fullReport] of against.entries()) {
    const verified = await verify(fullReport).catch(isUnavailable)
    if (verified === false) continue
    place(order, verified)
    if (verified.feedID !== feedID) continue
    const name = `against[${index}]`
    witnesses.push({ name, report: readEvidence(name, feedID, fullReport) })
  }
  for (const { name, report } of witnesses) {
    const signing = signingOf(report)
    const isLate = signing !== undefined && order.find(signing) !== undefined
    compare(name, report, reports, { tiling, range, counts: !isLate || allowSignedLater })
  }
  const signedLater = reports.flatMap((report, index): LateReport[] => {
    const signing = signingOf(report)
    const facts = signing && order.find(signing)
    if (facts === undefined) return []
    if (!allowSignedLater) refuseSignedLater(`reports[${index}] is`, report, facts)
    return [{ index, observationsTimestamp: report.observationsTimestamp, ...facts }]
  })
  const signedBefore = findSignedBefore(reports, signedLater, order)
  if (signedWithin !== undefined) checkWithin(reports, signedLater, order, signedWithin)
  const others = witnesses.length - (neighbours?.length ?? 0)
  return {
    feedID,
    claim,
    value: claim.value === null ? undefined : BigInt(claim.value),
    range,
    missing,
    edges: missing.map(hole => edgesOf(hole, reports)),
    isComplete: missing.length === 0,
    reports: reports.length,
    signers: [...signers],
    signedLater,
    signedBefore,
    witnesses: others,
    ...describeProof(proof, others, signedLater, signedBefore),
  }
}

function refuse(reason: ProofFailure, message: string, cause?: unknown): never {
  throw new ProofError(reason, message, cause)
}

/** For these reasons nothing is known of a report: what verifies it is away. */
const unavailable: readonly string[] = ['signers-unavailable', 'curve-library-unavailable']

/** False for an error that says that a report is not verified. Throws all others. */
function isUnavailable(error: unknown): false {
  if (!isStreamsError(error, 'VERIFICATION') || unavailable.includes(error.reason)) throw error
  return false
}

function refuseReport(place: string): (error: unknown) => never {
  return error => {
    isUnavailable(error)
    const { message } = error as Error
    return refuse('signature', `${place}: ${message}`, error)
  }
}

/** So many reports are verified before other work has its turn. */
const REPORTS_AT_ONCE = 16

async function yieldToOthers(signal: AbortSignal | undefined): Promise<void> {
  await nextTurn()
  signal?.throwIfAborted()
}

/** Reads the times of a report, and decodes it. Its signatures are not checked. */
function readEvidence(place: string, feedID: string, fullReport: string): Evidence {
  const claim = readSignedClaim(fullReport, feedID)
  if (isRejection(claim))
    return refuse(
      claim.reason === 'wrong-feed' ? 'wrong-feed' : 'signature',
      `${place} can't be verified: ${claim.rule}`,
    )
  const { validFromTimestamp, observationsTimestamp } = claim
  if (validFromTimestamp === undefined || validFromTimestamp > observationsTimestamp)
    return refuse('order', `${place} must end after it begins`)
  try {
    decodeReport(fullReport, feedID)
  } catch (error) {
    refuse('malformed', `${place} can't be decoded`, error)
  }
  return { feedID, fullReport, validFromTimestamp, observationsTimestamp }
}

function rangeOfAverage({ from, to, ends }: AverageClaim): TimeRange {
  try {
    return rangeOf(from, to, ends)
  } catch (error) {
    return refuse('malformed', `claim: ${(error as Error).message}`)
  }
}

/** The field must be one of the feed's reports, also where no report counts. */
function checkField([first]: readonly Evidence[], field: string): void {
  try {
    if (first !== undefined) signedPrice(first, field)
  } catch (error) {
    refuse('malformed', `claim.${(error as Error).message}`)
  }
}

/** The report before the first of a proof, and the report after the last. */
const MAX_NEIGHBOURS = 2

/** Reports that don't touch the range are the neighbours of its missing ends, and nothing else. */
function checkEnds(
  reports: readonly Evidence[],
  { missing }: Tiling<Evidence>,
  { from, to }: TimeRange,
): void {
  const before = reports.filter(report => report.observationsTimestamp < from).length
  const after = reports.filter(report => report.validFromTimestamp > to).length
  const wantedBefore = missing[0]?.from === from ? 1 : 0
  const wantedAfter = missing.at(-1)?.to === to ? 1 : 0
  if (before !== wantedBefore)
    refuse('ends', `reports must hold ${wantedBefore} that ended before ${from}, not ${before}`)
  if (after !== wantedAfter)
    refuse('ends', `reports must hold ${wantedAfter} that began after ${to}, not ${after}`)
}

/** The reports around a missing range. After `checkEnds`, both are there. */
function edgesOf({ from, to }: TimeRange, reports: readonly Evidence[]): HoleEdges {
  const before = reports.findLast(report => report.observationsTimestamp < from) as Evidence
  const after = reports.find(report => report.validFromTimestamp > to) as Evidence
  return { before: windowOf(before), after: windowOf(after) }
}

function windowOf({ validFromTimestamp, observationsTimestamp }: Evidence): TimeRange {
  return { from: validFromTimestamp, to: observationsTimestamp }
}

function refuseValue(claim: Proof['claim'], again: Proof['claim']): never {
  const [name, value] = Object.entries(again).find(
    ([key, each]) => (claim as unknown as Record<string, unknown>)[key] !== each,
  ) ?? ['value', again.value]
  refuse('value', `claim.${name} must be ${String(value)}, as its reports give`)
}

/**
 * Compares the reports of a proof with another one. Only one that `counts` may stand for times that
 * the proof gives to its reports.
 */
function compare(
  place: string,
  witness: Evidence,
  reports: readonly Evidence[],
  proof: {
    readonly tiling: Tiling<Evidence>
    readonly range: TimeRange
    readonly counts: boolean
  },
): void {
  const { tiling, range, counts } = proof
  const { validFromTimestamp: from, observationsTimestamp: to } = witness
  if (reports.some(({ fullReport }) => isSameBlob(fullReport, witness.fullReport))) return
  if (tiling.missing.some(hole => hole.from <= to && hole.to >= from))
    refuse('refuted', `${place} holds ${from}–${to}, and missing says that no report does`)
  if (!counts || !hasPart(reports, witness, range)) return
  const other = tiling.parts.find(part => part.from <= to && part.to >= from)
  const index = other === undefined ? 0 : reports.indexOf(other.report)
  refuse('refuted', `${place} holds ${from}–${to} with other contents than reports[${index}]`)
}

/** Whether a time of the range belongs to a further report: no report observed before holds it. */
function hasPart(reports: readonly Evidence[], witness: Evidence, range: TimeRange): boolean {
  const { validFromTimestamp, observationsTimestamp: to } = witness
  const earlier = reports.filter(each => each.observationsTimestamp < to)
  const own = { from: Math.max(range.from, validFromTimestamp), to: Math.min(range.to, to) }
  return tile(earlier, own).missing.length > 0
}

function describe(ranges: readonly TimeRange[]): string {
  return ranges.length === 0 ? 'empty' : ranges.map(({ from, to }) => `${from}–${to}`).join(', ')
}

/** Adds the place of a verified report, if its network numbers its reports. */
function place(
  order: SigningOrder,
  { feedID, configDigest, sequenceNumber, observationsTimestamp }: Verification,
): void {
  if (sequenceNumber === undefined) return
  order.add({ feedID, digest: configDigest, number: sequenceNumber, time: observationsTimestamp })
}

/** When each report was signed at the latest that was not signed later than its time. */
function signedBeforeEach(
  reports: readonly Evidence[],
  signedLater: readonly LateReport[],
  order: SigningOrder,
): readonly { readonly report: Evidence; readonly before: number | undefined }[] {
  const onTime = reports.filter((_report, index) => signedLater.every(each => each.index !== index))
  return onTime.map(report => {
    const signing = signingOf(report)
    return { report, before: signing && order.next(signing) }
  })
}

function findSignedBefore(
  reports: readonly Evidence[],
  signedLater: readonly LateReport[],
  order: SigningOrder,
): number | undefined {
  const all = signedBeforeEach(reports, signedLater, order)
  const known = all.flatMap(({ before }) => (before === undefined ? [] : [before]))
  return known.length === all.length && known.length > 0 ? Math.max(...known) : undefined
}

/** Refuses a proof with a report that is not shown to have been signed soon after its time. */
function checkWithin(
  reports: readonly Evidence[],
  signedLater: readonly LateReport[],
  order: SigningOrder,
  signedWithin: number,
): void {
  for (const { report, before } of signedBeforeEach(reports, signedLater, order)) {
    const { feedID, observationsTimestamp } = report
    const limit = inMilliseconds(feedID, observationsTimestamp) + signedWithin
    if (before === undefined || before > limit)
      refuse(
        'signed-later',
        `reports[${reports.indexOf(report)}] must be shown to be signed within ${signedWithin} ms: ${before === undefined ? 'the proof has no later report of its network' : `it was signed before a report of ${dateOf(before)}`}`,
      )
  }
}

/** Says in sentences what is known of the times at which the reports were signed. */
function describeSigning(
  { reports, neighbours }: Proof,
  signedLater: readonly LateReport[],
  signedBefore: number | undefined,
): Pick<CheckedProof, 'proved' | 'assumed' | 'unproved'> {
  const late = signedLater.map(({ index, after, before }) => {
    const until = before === undefined ? '' : ` and before a report of ${dateOf(before)}`
    return `reports[${index}] was signed after a report of ${dateOf(after)}${until}.`
  })
  if (late.length === reports.length) return { proved: late, assumed: [], unproved: [] }
  const which = late.length === 0 ? 'The reports were' : 'All others were'
  if (signedBefore !== undefined)
    return {
      proved: [...late, `${which} signed before a report of ${dateOf(signedBefore)}.`],
      assumed: [`The report of ${dateOf(signedBefore)} was itself signed at its time.`],
      unproved: [],
    }
  const why =
    neighbours === undefined
      ? ', as version 1 of the format has no neighbours'
      : ', as the proof has no later report of their network, or the network does not number its reports'
  return {
    proved: late,
    assumed: [],
    unproved: [`That the reports were signed at their time${why}.`],
  }
}

const dateOf = (ms: number): string => new Date(ms).toISOString()

function describeProof(
  proof: Proof,
  others: number,
  signedLater: readonly LateReport[],
  signedBefore: number | undefined,
): Pick<CheckedProof, 'proved' | 'assumed' | 'unproved'> {
  const { claim, missing, reports } = proof
  const signing = describeSigning(proof, signedLater, signedBefore)
  const { field } = claim
  const what =
    claim.kind === 'price'
      ? `${field} at ${claim.at} is ${claim.value ?? 'in no report of the proof'}`
      : `the average of ${field} from ${claim.from} to ${claim.to} (without the time ${claim.ends.open === 'from' ? claim.from : claim.to} itself, ${claim.ends.straddling === 'clip' ? 'reports clipped to the window' : 'reports counted whole'}) is ${claim.value ?? 'that of no report'}`
  const holes = missing.length > 0
  return {
    proved: [
      `Enough of the signers have signed each of the ${reports.length} reports.`,
      `By these reports, ${what}.`,
      ...(holes ? [] : ['The windows of the reports leave no time open.']),
      ...signing.proved,
    ],
    assumed: [
      'The signers that you gave are those of the network, at the times of the reports.',
      'No more than f of the signers sign what they have not observed.',
      ...signing.assumed,
      ...(holes ? [`No report was signed and stored for ${describe(missing)}.`] : []),
    ],
    unproved: [
      'That the price is right: the signers say what they observed.',
      ...signing.unproved,
      ...(holes
        ? [
            others === 0
              ? 'That the missing ranges have no report: a validly signed report of such a range refutes the proof.'
              : `That the missing ranges have no report: ${others} further reports did not refute it.`,
          ]
        : []),
    ],
  }
}

/** Checks the form of a proof, and bounds its size before anything is computed. */
function readProof(given: Proof | string): Proof {
  const proof = record('proof', typeof given === 'string' ? parse(given) : given, [
    'format',
    'version',
    'feedID',
    'claim',
    'missing',
    'reports',
    'neighbours',
  ])
  if (proof.format !== 'sluice-proof') refuse('malformed', 'format must be sluice-proof')
  const { version, feedID, missing, reports, neighbours } = proof
  if (version !== 1 && version !== 2)
    refuse('malformed', 'version must be 1 or 2, which are those that this library knows')
  if ((neighbours !== undefined) !== (version === 2))
    refuse(
      'malformed',
      `neighbours must ${version === 2 ? 'be given' : 'not be given'} in version ${version}`,
    )
  if (version === 2 && !(Array.isArray(neighbours) && neighbours.length <= MAX_NEIGHBOURS))
    refuse('malformed', `neighbours must be a list of at most ${MAX_NEIGHBOURS} reports`)
  if (!isFeedID(feedID) || feedID !== feedID.toLowerCase())
    refuse('malformed', 'feedID must be 0x and 64 hexadecimal digits in lower case')
  if (!Array.isArray(reports) || reports.length === 0)
    refuse('malformed', 'reports must be a list of at least one report')
  if (reports.length > MAX_REPORTS)
    refuse('too-large', `reports must be at most ${MAX_REPORTS}, not ${reports.length}`)
  let characters = 0
  for (const [name, list] of Object.entries({ reports, neighbours }))
    for (const [index, report] of ((list ?? []) as unknown[]).entries()) {
      if (typeof report !== 'string') return refuse('malformed', `${name}[${index}] must be a text`)
      characters += report.length
      if (characters > MAX_CHARACTERS)
        refuse('too-large', `reports must have at most ${MAX_CHARACTERS} characters together`)
    }
  if (!Array.isArray(missing) || missing.length > reports.length + 1)
    refuse('malformed', 'missing must be a list of ranges between the reports')
  return {
    format: 'sluice-proof',
    version: version as Proof['version'],
    feedID: feedID as string,
    claim: readClaim(proof.claim),
    missing: missing.map((each, index) => {
      const range = record(`missing[${index}]`, each, ['from', 'to'])
      return { from: readTime(range, 'from'), to: readTime(range, 'to') }
    }),
    reports: reports as string[],
    ...(neighbours === undefined ? {} : { neighbours: neighbours as string[] }),
  }
}

function parse(text: string): unknown {
  if (text.length > MAX_CHARACTERS)
    refuse('too-large', `its text must be at most ${MAX_CHARACTERS} characters`)
  const bare = (json: string): string => json.replace(/\s+/g, '')
  let value: unknown
  let isPlain: boolean
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''))
    // Of a repeated field the last counts here, and another reader may show the first.
    isPlain = bare(JSON.stringify(value)) === bare(text)
  } catch {
    return refuse('malformed', 'its text must be JSON')
  }
  return isPlain ? value : refuse('malformed', 'its text must have each field once, and no escapes')
}

function readClaim(value: unknown): Proof['claim'] {
  const kind = (value as { kind?: unknown } | null | undefined)?.kind
  const names = ['kind', 'field', 'value']
  if (kind === 'price') {
    const claim = record('claim', value, [...names, 'at'])
    return {
      kind,
      at: readTime(claim, 'at', 'claim.'),
      field: readText(claim, 'field'),
      value: readInteger(claim, 'value'),
    }
  }
  if (kind !== 'average') refuse('malformed', 'claim.kind must be price or average')
  const claim = record('claim', value, [...names, 'from', 'to', 'ends', 'sum', 'duration'])
  const ends = record('claim.ends', claim.ends, ['open', 'straddling'])
  const { open, straddling } = ends
  if (open !== 'from' && open !== 'to') refuse('malformed', 'claim.ends.open must be from or to')
  if (straddling !== 'clip' && straddling !== 'whole')
    refuse('malformed', 'claim.ends.straddling must be clip or whole')
  return {
    kind,
    from: readTime(claim, 'from', 'claim.'),
    to: readTime(claim, 'to', 'claim.'),
    ends: { open, straddling } satisfies WindowEnds,
    field: readText(claim, 'field'),
    value: readInteger(claim, 'value'),
    sum: readInteger(claim, 'sum') ?? refuse('malformed', 'claim.sum must be a decimal text'),
    duration: readTime(claim, 'duration', 'claim.'),
  }
}

/** An object with these fields, and no others. */
function record(
  place: string,
  value: unknown,
  names: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse('malformed', `${place} must be an object, not ${kindOf(value)}`)
  const unknown = Object.keys(value).find(name => !names.includes(name))
  if (unknown !== undefined)
    refuse('malformed', `${place} must not have the field ${JSON.stringify(unknown.slice(0, 40))}`)
  return value as Readonly<Record<string, unknown>>
}

function readTime(value: Readonly<Record<string, unknown>>, name: string, before = ''): number {
  const time = value[name]
  if (typeof time === 'number' && Number.isSafeInteger(time) && time >= 0) return time
  return refuse('malformed', `${before}${name} must be a whole number from 0 on`)
}

function readText(claim: Readonly<Record<string, unknown>>, name: string): string {
  const text = claim[name]
  if (typeof text === 'string' && text.length > 0 && text.length <= 64) return text
  return refuse('malformed', `claim.${name} must be a text of 1 to 64 characters`)
}

/** The most digits of a number in a claim: a sum of 192-bit prices over 2^53 units of time. */
const MAX_DIGITS = 80

function readInteger(claim: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = claim[name]
  if (value === null) return null
  if (typeof value === 'string' && value.length <= MAX_DIGITS && /^(0|-?[1-9]\d*)$/.test(value))
    return value
  return refuse('malformed', `claim.${name} must be a whole number as decimal text, or null`)
}
