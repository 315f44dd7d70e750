import { inMilliseconds } from './feed-id.js'
import { DIGITS } from './full-report.js'

/**
 * A report that was signed later than its time says: the network had signed a report of a later
 * time before.
 */
export interface SignedLater {
  /**
   * The latest time, in milliseconds of Unix time, of which the network is known to have signed a
   * report before this one.
   */
  readonly after: number
  /**
   * The earliest time, in milliseconds of Unix time, of which the network is known to have signed a
   * report after this one, in the order of time; undefined if there is none.
   */
  readonly before: number | undefined
}

/** What the order of signing needs of a report. */
export interface SignedReport {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  readonly fullReport: string
  /** The time of the observations, in the feed's unit. */
  readonly observationsTimestamp: number
}

/** The digits of the config digest, with `0x`. */
const DIGEST_END = 2 + DIGITS
/** Where the sequence number begins: the last five bytes of the second word. */
const SEQUENCE = 2 + 2 * DIGITS - 10
const SEQUENCE_END = 2 + 2 * DIGITS
/** The extra hash of networks that count in another way. */
const NO_HASH = '0'.repeat(DIGITS)
/**
 * Milliseconds by which the time of a network may go back from one round to the next: it is the
 * median of the signers' clocks. The times of one feed always ascend.
 */
const JITTER = 1000

/** The place of a report among the reports of its network. */
export interface Signing {
  /** The feed, in lower case. */
  readonly feedID: string
  /** The config digest. Only reports of one digest have comparable numbers. */
  readonly digest: string
  /** The sequence number: the round in which the network signed the report, whatever its feed. */
  readonly number: number
  /** The time of the observations, in the feed's unit. */
  readonly time: number
}

/**
 * The place of a report, whose encoding must have been checked. Undefined for older networks, which
 * count in another way.
 */
export function signingOf(report: SignedReport): Signing | undefined {
  const { feedID, fullReport, observationsTimestamp: time } = report
  const number = sequenceOf(fullReport)
  if (number === undefined) return undefined
  return { feedID, digest: fullReport.slice(0, DIGEST_END).toLowerCase(), number, time }
}

/** The sequence number of a report; undefined for older networks. */
function sequenceOf(fullReport: string): number | undefined {
  if (fullReport.startsWith(NO_HASH, SEQUENCE_END)) return undefined
  return Number.parseInt(fullReport.slice(SEQUENCE, SEQUENCE_END), 16)
}

/**
 * The times of which reports were signed, in the order of signing. Reports that were signed later
 * than their time are left out, so both lists ascend.
 */
class Line {
  readonly #numbers: number[] = []
  readonly #times: number[] = []
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  add(number: number, time: number): void {
    const at = this.#indexAfter(number)
    if (at > 0 && (this.#times[at - 1] as number) >= time) return
    // Of a round, the latest time counts.
    const start = at > 0 && this.#numbers[at - 1] === number ? at - 1 : at
    // What was signed after this report and is not later was signed later than its time.
    let end = at
    while (end < this.#times.length && (this.#times[end] as number) <= time) end++
    if (start === this.#times.length) {
      this.#numbers.push(number)
      this.#times.push(time)
    } else {
      this.#numbers.splice(start, end - start, number)
      this.#times.splice(start, end - start, time)
    }
    if (this.#numbers.length <= 2 * this.#most) return
    this.#numbers.splice(0, this.#most)
    this.#times.splice(0, this.#most)
  }

  /** The latest time of the reports that were signed before this number. */
  before(number: number): number | undefined {
    return this.#times[this.#indexAfter(number - 1) - 1]
  }

  /** The earliest time of the reports that were signed after this number. */
  after(number: number): number | undefined {
    return this.#times[this.#indexAfter(number)]
  }

  /** The index of the first report with a higher number. */
  #indexAfter(number: number): number {
    let low = 0
    let high = this.#numbers.length
    if (high > 0 && (this.#numbers[high - 1] as number) <= number) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#numbers[middle] as number) <= number) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The reports of one network. */
interface Network {
  readonly all: Line
  readonly feeds: Map<string, Line>
}

/**
 * Finds the reports that were signed later than their time. Within one config digest, the sequence
 * number counts the rounds in which the network signs. So a report of a lower time with a higher
 * number was signed later. The reports of other feeds of the network bound when it was signed.
 *
 * The result depends on the reports that were added, and not on their order.
 */
export class SigningOrder {
  readonly #networks = new Map<string, Network>()
  readonly #most: number

  /** Remembers at least `most` times of each feed. */
  constructor(most: number = Number.POSITIVE_INFINITY) {
    this.#most = most
  }

  /** Adds the place of a report. */
  add({ feedID, digest, number, time }: Signing): void {
    let network = this.#networks.get(digest)
    if (network === undefined) {
      network = { all: new Line(this.#most), feeds: new Map() }
      this.#networks.set(digest, network)
    }
    let feed = network.feeds.get(feedID)
    if (feed === undefined) {
      feed = new Line(this.#most)
      network.feeds.set(feedID, feed)
    }
    const at = inMilliseconds(feedID, time)
    feed.add(number, at)
    network.all.add(number, at)
  }

  /** When a report was signed; undefined if no report shows that it was signed later. */
  find({ feedID, digest, number, time }: Signing): SignedLater | undefined {
    const network = this.#networks.get(digest)
    if (network === undefined) return undefined
    const own = network.feeds.get(feedID)?.before(number) ?? Number.NEGATIVE_INFINITY
    const any = network.all.before(number) ?? Number.NEGATIVE_INFINITY
    // A time in seconds may be any moment of its second.
    const end = inMilliseconds(feedID, time + 1) + JITTER
    if (own <= inMilliseconds(feedID, time) && any <= end) return undefined
    return { after: Math.max(own, any), before: network.all.after(number) }
  }

  /**
   * The earliest time, in milliseconds of Unix time, of which the network is known to have signed a
   * report after this one; undefined if there is none.
   */
  next({ digest, number }: Signing): number | undefined {
    return this.#networks.get(digest)?.all.after(number)
  }
}

/**
 * Calls `mark` with each report of a list that another report of the list shows to be signed later.
 */
export function findSignedLater<Each extends SignedReport>(
  reports: readonly Each[],
  mark: (report: Each, facts: SignedLater) => void,
): void {
  if (isInOrder(reports)) return
  const order = new SigningOrder()
  const signings = reports.map(signingOf)
  for (const signing of signings) if (signing !== undefined) order.add(signing)
  for (const [index, signing] of signings.entries()) {
    const facts = signing && order.find(signing)
    if (facts !== undefined) mark(reports[index] as Each, facts)
  }
}

/** Whether reports in the order of time are in the order of signing as well, digests aside. */
function isInOrder(reports: readonly SignedReport[]): boolean {
  let last = 0
  for (const { fullReport } of reports) {
    const number = sequenceOf(fullReport) ?? last
    if (number < last) return false
    last = number
  }
  return true
}
