import type { Report } from '../report/report.js'
import type { ClockChange } from './contract/status.js'

/** A statement about the present: the milliseconds to add to the monotonic clock. */
interface Witness {
  readonly source: ClockChange['source']
  readonly offset: number
  /** Milliseconds by which it may be off. */
  readonly slack: number
}

/** Live reports of a feed that came from one origin, and whose times advance as the monotonic clock does. */
interface Chain {
  /** When its last report came, by the monotonic clock. */
  at: number
  /** The time of the last report, in the feed's unit. */
  time: number
  /** The time of a report in milliseconds, less the monotonic time at which it came: the highest of the chain. */
  highest: number
  length: number
}

/** Milliseconds by which a report may be dated later than the present: clocks and delays differ by so much. */
export const GRACE = 5000
/** Milliseconds by which two witnesses may differ and still agree. */
const TOLERANCE = 2000
/** Reports come a moment after their time: milliseconds of that, and by how much it varies. */
const DELAY = 500
const DELAY_SLACK = 2000
/** Live reports that make a chain, and those that all chains of an origin need together. */
const CHAIN = 3
const ALL_CHAINS = 5
/** Milliseconds by which the delays of a chain may differ. */
const STEADY = 4000
/** Milliseconds for which reports that are ahead of all other witnesses are left alone, and after which reports are followed again. */
const FOLLOW = 60_000
const FOLLOW_INTERVAL = 600_000
/** Milliseconds between two requests for a date, and requests in a row whose answers may have none. */
const ASK_INTERVAL = 10_000
const MAX_ASKS = 3
/** Milliseconds after a connection has opened, in which an answer may bring a date by itself. */
const ASK_DELAY = 2000
/** Milliseconds by which the time of an answer may be unknown, where there is a better one. */
const MAX_SLACK = 5000
const MAX_HOSTS = 16
/** Dates before 2015 and after 2100 are no dates, and a cache keeps none for more than a day or so. */
const EARLIEST = 1_420_070_400_000
const LATEST = 4_102_444_800_000
const MAX_CHAINS = 8192
/** Milliseconds without a report after which a feed has no say, and between two times at which all are asked. */
const QUIET = 60_000
const CONSENSUS_INTERVAL = 250

/**
 * The present of a client: the one answer to the question whether a time has come yet. docs/time.md has the rule and its reasons.
 *
 * The present is the monotonic clock plus an offset. Three kinds of witnesses know the offset: this machine's wall clock, the
 * `Date` of each host's last answer, and live reports. The offset is the one that most witnesses agree with; where two are as many,
 * a date comes before the reports, and these before the wall clock. Reports only ever move the present ahead.
 */
export class Present {
  /**
   * Milliseconds of Unix time: `look` need not be called for a report that is dated up to here. It is -Infinity while reports are
   * followed.
   */
  horizon: number = Number.NEGATIVE_INFINITY
  readonly #read: () => number
  readonly #request: () => void
  /** What the wall clock was ahead of the monotonic one when it was compared last, without a step since. */
  #wall: number
  #offset: number
  #source: ClockChange['source'] = 'machine'
  /** By host, the oldest answer first. */
  readonly #dates = new Map<string, Witness>()
  /** What live reports have said, since the last step ahead. */
  #reports: Witness | undefined
  /** By origin and feed. */
  readonly #chains = new Map<string, Map<string, Chain>>()
  #chainCount = 0
  #consensusAt = Number.NEGATIVE_INFINITY
  readonly #watchers = new Set<(change: ClockChange) => void>()
  #isFollowing = true
  /** Two witnesses agree on the present. */
  #isSure = false
  /** When they are followed again. */
  #followAgain = Number.POSITIVE_INFINITY
  #askedAt = Number.NEGATIVE_INFINITY
  /** Requests whose answers had no date. */
  #asks = 0
  #datedAt = Number.NEGATIVE_INFINITY
  /** Until then the reports need not be followed again: they are ahead of all other witnesses. */
  #quietUntil = Number.NEGATIVE_INFINITY
  /** The correction that was told last. */
  #told = 0
  #mustAsk = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #isOver = false

  /** `now` reads the wall clock, in milliseconds; `ask` sends one cheap request, whose answer comes back through `dated`. */
  constructor(now: () => number, ask: () => void) {
    this.#read = now
    this.#request = ask
    this.#wall = now() - performance.now()
    this.#offset = this.#wall
  }

  /** Milliseconds to add to this machine's clock; 0 where it agrees. */
  get offsetMs(): number {
    return Math.round(this.#offset - this.#wall)
  }

  /** The present in milliseconds of Unix time. */
  readonly now = (): number => {
    const monotonic = performance.now()
    this.#compare(monotonic)
    if (this.#mustAsk && this.#asks < MAX_ASKS && monotonic - this.#askedAt > ASK_INTERVAL)
      this.#ask(monotonic)
    return monotonic + this.#offset
  }

  /** Calls back when the correction of this machine's clock has changed. Returns a function that ends that. */
  watch(watcher: (change: ClockChange) => void): () => void {
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  /** A connection has opened: asks, where nothing with a date comes by itself. */
  connected(): void {
    if (this.#timer !== undefined || this.#dates.size > 0 || this.#isOver) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#dates.size > 0) return
      this.#mustAsk = true
      this.#asks = 0
      this.now()
    }, ASK_DELAY)
    this.#timer.unref?.()
  }

  /** An answer of a host: its headers, and the monotonic times at which the request was sent and the answer came. */
  dated(host: string, headers: Headers, sent: number, received: number): void {
    const date = dateOf(headers)
    if (date === undefined) return
    this.#compare(received)
    // The host read its clock at some moment between the two, and left out the milliseconds.
    const [low, high] = [date - received, date + 1000 - sent]
    const slack = (high - low) / 2
    if (slack > MAX_SLACK && this.#dates.size > 0) return
    const nearest = Math.min(high, Math.max(low, this.#offset))
    const isSame = Math.abs(nearest - this.#offset) <= TOLERANCE
    this.#dates.delete(host)
    this.#dates.set(host, {
      source: 'service',
      offset: isSame ? nearest : (low + high) / 2,
      slack: isSame ? 0 : slack,
    })
    for (const oldest of this.#dates.keys()) {
      if (this.#dates.size <= MAX_HOSTS) break
      this.#dates.delete(oldest)
    }
    this.#mustAsk = false
    this.#asks = 0
    this.#datedAt = received
    this.#decide()
  }

  /** Looks at a live report that is dated after the horizon, as it comes from an origin. */
  look(report: Report, ms: number): void {
    const isAhead = ms > this.now() + GRACE
    const monotonic = performance.now()
    if (isAhead && monotonic - this.#datedAt > FOLLOW_INTERVAL) this.#mustAsk = true
    if (monotonic > this.#followAgain || (isAhead && monotonic > this.#quietUntil))
      this.#followReports()
    if (this.#isFollowing) this.#follow(report, ms, monotonic)
    this.#setHorizon()
  }

  /** No connection is left that needs to know. */
  idle(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  end(): void {
    this.#isOver = true
    this.idle()
  }

  #setHorizon(): void {
    this.horizon = this.#isFollowing
      ? Number.NEGATIVE_INFINITY
      : performance.now() + this.#offset + GRACE
  }

  /** Compares the wall clock with the monotonic one. */
  #compare(monotonic: number): void {
    const wall = this.#read() - monotonic
    const step = wall - this.#wall
    if (step === 0) return
    if (Math.abs(step) <= TOLERANCE) {
      // Small differences count only where nobody corrects the wall clock; else they add up to a step.
      if (this.#source !== 'machine') return
      this.#wall = wall
      this.#offset = wall
      return
    }
    if (step > 0) {
      // The monotonic clock may have stood still while the machine slept: what was compared with it is worth nothing now.
      this.#dates.clear()
      this.#reports = undefined
    } else {
      // The present goes on as it was. Reports that have agreed with it did so less exactly: they come a moment after their time.
      const carried: Witness = { source: 'reports', offset: this.#offset, slack: 0 }
      if (this.#reports === undefined || agree(this.#reports, carried)) this.#reports = carried
    }
    this.#wall = wall
    this.#clearChains()
    this.#quietUntil = Number.NEGATIVE_INFINITY
    this.#followReports()
    this.#mustAsk = true
    this.#asks = 0
    this.#decide()
  }

  #ask(monotonic: number): void {
    this.#askedAt = monotonic
    this.#asks++
    if (!this.#isOver) this.#request()
  }

  #followReports(): void {
    if (this.#isFollowing) return
    this.#isFollowing = true
    this.horizon = Number.NEGATIVE_INFINITY
  }

  #stopFollowing(): void {
    this.#isFollowing = false
    const isDated = this.#isSure && this.#dates.size > 0
    this.#followAgain = isDated ? Number.POSITIVE_INFINITY : performance.now() + FOLLOW_INTERVAL
  }

  /** Adds a report to its chain, and asks all chains for the present. */
  #follow(report: Report, ms: number, monotonic: number): void {
    const { feedID, origin, observationsTimestamp: time } = report
    const offset = ms - monotonic
    const chains = this.#chains.get(origin) ?? new Map<string, Chain>()
    const chain = chains.get(feedID)
    if (chain === undefined) {
      if (this.#chainCount === MAX_CHAINS) return
      this.#chainCount++
      chains.set(feedID, { at: monotonic, time, highest: offset, length: 1 })
      this.#chains.set(origin, chains)
      return
    }
    chain.at = monotonic
    if (Math.abs(offset - chain.highest) > STEADY) {
      chain.time = time
      chain.highest = offset
      chain.length = 1
    } else if (time > chain.time) {
      chain.time = time
      chain.highest = Math.max(chain.highest, offset)
      chain.length++
    }
    if (chain.length < CHAIN || monotonic - this.#consensusAt < CONSENSUS_INTERVAL) return
    this.#consensusAt = monotonic
    const found = this.#consensus(monotonic)
    if (found.length > 0) this.#believe(found)
  }

  /** The offsets by the reports of each origin, that most of its feeds agree on: the least first. */
  #consensus(monotonic: number): number[] {
    const found: number[] = []
    for (const [origin, chains] of this.#chains) {
      let reports = 0
      const offsets: number[] = []
      for (const [feedID, { at, length, highest }] of chains) {
        if (monotonic - at > QUIET) {
          chains.delete(feedID)
          this.#chainCount--
        } else if (length >= CHAIN) {
          reports += length
          offsets.push(highest)
        }
      }
      if (chains.size === 0) this.#chains.delete(origin)
      if (2 * offsets.length <= chains.size || reports < ALL_CHAINS) continue
      offsets.sort((one, other) => one - other)
      found.push(offsets[(offsets.length - 1) >> 1] as number)
    }
    return found.sort((one, other) => one - other)
  }

  #clearChains(): void {
    this.#chains.clear()
    this.#chainCount = 0
    this.#consensusAt = Number.NEGATIVE_INFINITY
  }

  #believe(found: readonly number[]): void {
    const witnesses = found.map(
      (offset): Witness => ({ source: 'reports', offset: offset + DELAY, slack: DELAY_SLACK }),
    )
    const others = [...this.#dates.values(), this.#machine]
    const reports =
      witnesses.find(each => others.some(other => agree(each, other))) ?? (witnesses[0] as Witness)
    this.#decide(reports)
    this.#quietUntil = performance.now() + FOLLOW
    if (Math.abs(reports.offset - this.#offset) <= TOLERANCE + DELAY_SLACK) this.#reports = reports
    this.#clearChains()
    this.#stopFollowing()
  }

  get #machine(): Witness {
    return { source: 'machine', offset: this.#wall, slack: 0 }
  }

  /** Chooses the witness that most others agree with. */
  #decide(reports?: Witness): void {
    const wall = this.#machine
    const dates = [...this.#dates.values()].reverse()
    const known = [...dates, this.#reports, reports, wall]
    const witnesses = known.filter(witness => witness !== undefined)
    const others = [...dates, wall]
    // Reports that agree with a witness speak for no other.
    const isAlone = (witness: Witness): boolean =>
      witness.source === 'reports' && !others.some(other => agree(witness, other))
    const alone = new Set(witnesses.filter(isAlone))
    let best = wall
    let most = 0
    for (const witness of witnesses) {
      // What the reports alone say moves the present ahead only: their origin may lag.
      if (witness === reports && witness.offset < this.#offset + GRACE) continue
      const count = witnesses.reduce((sum, other) => sum + support(other, witness, alone), 0)
      if (count <= most) continue
      best = witness
      most = count
    }
    const { offset, source } = agree(best, wall) ? wall : best
    this.#offset = offset
    this.#source = source
    this.#isSure = most >= 2
    // Two that agree need not be followed.
    if (most >= 2 && reports === undefined && this.#isFollowing) this.#stopFollowing()
    else if (most < 2 && reports === undefined) this.#followReports()
    this.#setHorizon()
    const { offsetMs } = this
    if (Math.abs(offsetMs - this.#told) <= TOLERANCE) return
    this.#told = offsetMs
    for (const watcher of [...this.#watchers]) watcher({ offsetMs, source })
  }
}

/** How far a witness speaks for another. Reports come late, so alone they speak a little for all that is later, and not against it. */
function support(witness: Witness, other: Witness, alone: ReadonlySet<Witness>): number {
  if (agree(witness, other)) return 1
  return alone.has(witness) && witness.offset < other.offset ? 0.5 : 0
}

function agree(one: Witness, other: Witness): boolean {
  return Math.abs(one.offset - other.offset) <= TOLERANCE + Math.max(one.slack, other.slack)
}

/** The date of an answer in milliseconds, when it was sent: a cache says for how long it has had it. */
function dateOf(headers: Headers): number | undefined {
  const date = headers.get('date') ?? ''
  const age = headers.get('age')?.trim() ?? '0'
  const time = /^[A-Za-z]{3}.* GMT$/.test(date) ? Date.parse(date) : Number.NaN
  const isTime = time > EARLIEST && time < LATEST
  return isTime && /^\d{1,5}$/.test(age) ? time + 1000 * Number(age) : undefined
}

/** The present has moved, in words. */
export function describeClock({ offsetMs, source }: ClockChange): string {
  if (offsetMs === 0) return "this machine's clock agrees with the present again"
  const seconds = Math.round(Math.abs(offsetMs) / 1000)
  const direction = offsetMs > 0 ? 'behind' : 'ahead of'
  const who = source === 'reports' ? 'the reports say so' : 'the service says so'
  return `this machine's clock is ${seconds} s ${direction} the present: ${who}`
}
