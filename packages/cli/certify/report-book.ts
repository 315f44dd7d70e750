import { createHash } from 'node:crypto'
import { decodeReport } from 'sluice'
import { asError } from 'sluice/core'
import { inMilliseconds } from 'sluice/internal'
import { type Signers, verifyReport } from 'sluice/plugins/verify'
import {
  BLOB_DIGITS,
  feedResolution,
  feedVersion,
  type Head,
  isFeedID,
  LONGEST_RANGE,
  readHead,
  type Signing,
  SigningOrder,
  signingOf,
} from 'sluice/report'
import { dateTime, shortID } from '../output/feeds.js'
import { Tally } from './finding.js'
import { memberOf } from './probe.js'

/** A report as the service sends it, beside its signed bytes. */
export interface Envelope {
  readonly feedID: string
  readonly fullReport: string
  /** Undefined where a stream leaves the times out. */
  readonly validFrom: number | undefined
  readonly observed: number | undefined
}

/** The signed times of a report, in its feed's unit. */
export interface SeenReport {
  readonly feedID: string
  readonly validFrom: number
  readonly observed: number
}

interface Entry extends SeenReport {
  /** The place among the reports of the network; undefined for older networks. */
  readonly signing: Signing | undefined
  /** The digest of the signed blob. */
  readonly digest: string
  isStreamed: boolean
  isStored: boolean
}

/** How many reports of a feed are remembered. The oldest are forgotten. */
const REMEMBERED = 20_000
/** How many reports may wait for their verification. */
const MAX_UNVERIFIED = 2000

/**
 * Reads the envelope of a report. Returns a text that says what is wrong with it, or the envelope.
 * `areTimesOptional` for a message of a stream.
 */
export function readEnvelope(value: unknown, areTimesOptional = false): Envelope | string {
  const feedID = memberOf(value, 'feedID')
  const fullReport = memberOf(value, 'fullReport')
  if (typeof feedID !== 'string' || !isFeedID(feedID)) return 'its feedID is no feed id'
  if (typeof fullReport !== 'string' || !/^0x[0-9a-f]+$/i.test(fullReport))
    return 'its fullReport is not 0x and hexadecimal digits'
  const times = ['validFromTimestamp', 'observationsTimestamp'].map(name => memberOf(value, name))
  for (const time of times)
    if (!(Number.isSafeInteger(time) || (areTimesOptional && time === undefined)))
      return 'a timestamp is not a whole number'
  const [validFrom, observed] = times as (number | undefined)[]
  return { feedID: feedID.toLowerCase(), fullReport, validFrom, observed }
}

/** All reports that were seen, by whatever way they came, and the rules for their content. */
export class ReportBook {
  readonly envelopes: Tally = new Tally()
  readonly schemas: Tally = new Tally()
  readonly windows: Tally = new Tally()
  readonly tiles: Tally = new Tally()
  readonly expiries: Tally = new Tally()
  readonly duplicates: Tally = new Tally()
  readonly signatures: Tally = new Tally()
  /** How many reports of each schema version came. */
  readonly versions: Map<number, number> = new Map()
  /** How many gaps between windows the longest range of a report explains. */
  clamped = 0
  /** How many reports were not verified, because too many waited. */
  unverified = 0
  readonly #signers: Signers | undefined
  readonly #now: () => number
  readonly #feeds = new Map<string, Map<number, Entry>>()
  readonly #order = new SigningOrder(REMEMBERED)
  #verifying: Promise<void> = Promise.resolve()
  #waiting = 0

  /** `now` is the time of the service. */
  constructor(signers: Signers | undefined, now: () => number) {
    this.#signers = signers
    this.#now = now
  }

  /**
   * Checks a report and remembers it. Returns undefined if its signed part can't be read. `isLive`
   * for a report that is the newest when it arrives.
   */
  take(
    envelope: Envelope,
    { isStreamed, isLive }: { readonly isStreamed: boolean; readonly isLive: boolean },
  ): SeenReport | undefined {
    const { feedID, fullReport } = envelope
    const name = nameOf(envelope)
    let head: Head
    try {
      head = readHead(fullReport, feedID)
    } catch (thrown) {
      this.envelopes.count(`${name}: ${asError(thrown).message}`)
      return undefined
    }
    const { validFromTimestamp, observationsTimestamp: observed } = head
    const validFrom = validFromTimestamp ?? observed
    this.envelopes.count(contradictionOf(envelope, validFrom, observed))
    this.windows.count(
      validFrom > observed ? `${name}: valid from ${validFrom}, observed ${observed}` : undefined,
    )
    this.#decode(envelope, isLive)
    this.#verify(envelope)
    const signing = signingOf({ feedID, fullReport, observationsTimestamp: observed })
    if (signing !== undefined) this.#order.add(signing)
    const times = { feedID, validFrom, observed, signing }
    const entry = this.#remember(times, digestOf(fullReport, head))
    if (isStreamed) entry.isStreamed = true
    else entry.isStored = true
    return entry
  }

  #decode({ feedID, fullReport, ...envelope }: Envelope, isLive: boolean): void {
    const version = feedVersion(feedID)
    this.versions.set(version, (this.versions.get(version) ?? 0) + 1)
    const name = nameOf({ feedID, fullReport, ...envelope })
    try {
      const { expiresAt, observationsTimestamp } = decodeReport(fullReport, feedID)
      this.schemas.count()
      const expiry = inMilliseconds(feedID, expiresAt)
      if (expiresAt < observationsTimestamp)
        this.expiries.count(`${name}: expires before its observations`)
      else if (isLive && expiry < this.#now())
        this.expiries.count(`${name}: expired when it arrived, at ${expiresAt}`)
      else this.expiries.count()
    } catch (thrown) {
      this.schemas.count(`${name}: ${asError(thrown).message}`)
    }
  }

  /** Verifies one report after the other, so that the program stays free for messages. */
  #verify(envelope: Envelope): void {
    const signers = this.#signers
    if (signers === undefined) return
    if (this.#waiting >= MAX_UNVERIFIED) {
      this.unverified++
      return
    }
    this.#waiting++
    const { feedID, fullReport } = envelope
    this.#verifying = this.#verifying
      .then(() => verifyReport(fullReport, { signers, feedID, checkExpiry: false }))
      .then(
        () => this.signatures.count(),
        thrown => this.signatures.count(`${nameOf(envelope)}: ${asError(thrown).message}`),
      )
      .finally(() => {
        this.#waiting--
      })
  }

  /** Resolves when all reports that wait are verified. */
  verified(): Promise<void> {
    return this.#verifying
  }

  #remember(report: Pick<Entry, keyof SeenReport | 'signing'>, digest: string): Entry {
    const entries = this.#feeds.get(report.feedID) ?? new Map<number, Entry>()
    this.#feeds.set(report.feedID, entries)
    const known = entries.get(report.observed)
    if (known === undefined) {
      const entry = { ...report, digest, isStreamed: false, isStored: false }
      entries.set(report.observed, entry)
      const [oldest] = entries.keys()
      if (entries.size > REMEMBERED && oldest !== undefined) entries.delete(oldest)
      return entry
    }
    this.duplicates.count(
      known.digest === digest
        ? undefined
        : `${shortID(report.feedID)} ${report.observed}: two signed contents`,
    )
    return known
  }

  /** The reports of a feed in the order of their observations. */
  of(feedID: string): readonly Readonly<Entry>[] {
    const entries = [...(this.#feeds.get(feedID)?.values() ?? [])]
    return entries.sort((one, other) => one.observed - other.observed)
  }

  /**
   * Compares the windows of neighbours. `isWhole` says that no stored report is missing between
   * them, as in a page; otherwise only overlaps are found.
   */
  compareWindows(reports: readonly SeenReport[], isWhole: boolean): void {
    const sorted = [...reports].sort((one, other) => one.observed - other.observed)
    for (const [at, report] of sorted.entries()) {
      const before = sorted[at - 1]
      if (before === undefined || before.observed === report.observed) continue
      // `windows` has counted it.
      if (report.validFrom > report.observed) continue
      const apart = report.validFrom - before.observed - 1
      const between = `${shortID(report.feedID)}: after ${before.observed} a report is valid from ${report.validFrom}`
      const range = report.observed - report.validFrom
      const longest = LONGEST_RANGE * (feedResolution(report.feedID) === 's' ? 1 : 1000)
      if (apart < 0) this.tiles.count(`${between}: they overlap`)
      else if (apart === 0) this.tiles.count()
      else if (range >= longest) this.clamped++
      else if (isWhole) this.tiles.count(`${between}: they leave out ${apart}`)
    }
  }

  /** Texts about the reports that their network signed later than their time. */
  get signedLater(): readonly string[] {
    return this.feedIDs.flatMap(feedID =>
      this.of(feedID).flatMap(({ observed, signing }) => {
        const facts = signing && this.#order.find(signing)
        if (facts === undefined) return []
        return `${shortID(feedID)} ${dateTime(feedID, observed)}: signed after a report of ${new Date(facts.after).toISOString()}`
      }),
    )
  }

  /** How many reports have a sequence number. */
  get numbered(): number {
    return this.feedIDs.reduce(
      (sum, feedID) => sum + this.of(feedID).filter(({ signing }) => signing !== undefined).length,
      0,
    )
  }

  /** The ids of all feeds of which reports came. */
  get feedIDs(): readonly string[] {
    return [...this.#feeds.keys()]
  }
}

function nameOf({ feedID, observed }: Envelope): string {
  return observed === undefined || observed < 0 || observed > 8.64e12
    ? shortID(feedID)
    : `${shortID(feedID)} ${dateTime(feedID, observed)}`
}

/** Says how an envelope contradicts the signed times. */
function contradictionOf(
  envelope: Envelope,
  validFrom: number,
  observed: number,
): string | undefined {
  const says = `${shortID(envelope.feedID)}: the envelope says`
  if (envelope.observed !== undefined && envelope.observed !== observed)
    return `${says} observed ${envelope.observed}, the report ${observed}`
  if (envelope.validFrom !== undefined && envelope.validFrom !== validFrom)
    return `${says} valid from ${envelope.validFrom}, the report ${validFrom}`
  return undefined
}

function digestOf(fullReport: string, { blobLength }: Head): string {
  const start = 2 + BLOB_DIGITS
  const blob = fullReport.slice(start, start + 2 * blobLength).toLowerCase()
  return createHash('sha256').update(blob).digest('base64')
}
