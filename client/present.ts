import type { Report } from '../report/report.js'
import type { ClockChange } from './contract/status.js'

/** A source's statement about the current time: the milliseconds to add to the monotonic clock. */
interface Witness {
  readonly source: ClockChange['source']
  readonly offset: number
  /** The statement may be wrong by up to this many milliseconds. */
  readonly slack: number
}

/** Live reports of a feed from one origin. Their times advance like the monotonic clock. */
interface Chain {
  /** The arrival of the last report, by the monotonic clock. */
  at: number
  /** The time of the last report, in the feed's unit. */
  time: number
  /** The highest difference of the chain: a report's time less its arrival, in milliseconds. */
  highest: number
  length: number
}

/** A report may be dated this many milliseconds after the present, because clocks differ. */
export const GRACE = 5000
/** Two witnesses agree if they differ by at most this many milliseconds. */
const TOLERANCE = 2000
/** A report arrives about this many milliseconds after its time. */
const DELAY = 500
/** The delay between the time of a report and its arrival varies by this many milliseconds. */
const DELAY_SLACK = 2000
/** A chain counts if it has at least so many reports: fewer may be a coincidence. */
const CHAIN = 3
/** The chains of an origin count if together they have at least so many reports. */
const ALL_CHAINS = 5
/** The delays of a chain may differ by this many milliseconds. */
const STEADY = 4000
/**
 * After reports were followed, a report dated ahead of the present does not start it again for this
 * many milliseconds.
 */
const FOLLOW = 60_000
/** Reports are followed again after this many milliseconds, unless a date confirms the present. */
const FOLLOW_INTERVAL = 600_000
/** Milliseconds between two requests for a date. */
const ASK_INTERVAL = 10_000
/** After this many requests in a row without a dated answer, no more are sent. */
const MAX_ASKS = 3
/**
 * Milliseconds to wait after a connection has opened. If no date is known then, one is requested.
 */
const ASK_DELAY = 2000
/**
 * If another date is known, a date that may be wrong by more than this many milliseconds is
 * ignored.
 */
const MAX_SLACK = 5000
const MAX_HOSTS = 16
/** Dates before 2015 and from 2100 on are ignored. */
const EARLIEST = 1_420_070_400_000
const LATEST = 4_102_444_800_000
const MAX_CHAINS = 8192
/** A feed without a report for this many milliseconds does not count. */
const QUIET = 60_000
/** Milliseconds between two comparisons of all chains. */
const CONSENSUS_INTERVAL = 250

/**
 * A client's estimate of the current time. It decides whether a time has come yet.
 * docs/concepts/time.md explains the rule.
 *
 * The present is the monotonic clock plus an offset. Three kinds of witnesses state an offset: this
 * machine's wall clock, the `Date` of each host's last answer, and live reports. The offset with
 * the most agreeing witnesses wins. In a tie, a date wins over reports, and reports win over the
 * wall clock. Reports alone can only move the present ahead.
 */
export class Present {
  /**
   * Milliseconds of Unix time. A report dated up to this time needs no `look`. It is -Infinity
   * while reports are followed.
   */
  horizon: number = Number.NEGATIVE_INFINITY
  readonly #read: () => number
  readonly #host: string
  readonly #request: () => void
  /** The wall clock less the monotonic clock, at the last comparison. */
  #wall: number
  #offset: number
  #source: ClockChange['source'] = 'machine'
  /** The witnesses by host, the oldest answer first. */
  readonly #dates = new Map<string, Witness>()
  /** The witness of the live reports. It is removed when the wall clock jumps ahead. */
  #reports: Witness | undefined
  /** The chains by origin and feed. */
  readonly #chains = new Map<string, Map<string, Chain>>()
  #chainCount = 0
  #consensusAt = Number.NEGATIVE_INFINITY
  readonly #watchers = new Set<(change: ClockChange) => void>()
  #isFollowing = true
  /** At least two witnesses agree on the present. */
  #isSure = false
  /** The time after which reports are followed again. */
  #followAgain = Number.POSITIVE_INFINITY
  #askedAt = Number.NEGATIVE_INFINITY
  /** The number of requests in a row without a dated answer. */
  #asks = 0
  #datedAt = Number.NEGATIVE_INFINITY
  /**
   * Before this time, a report dated ahead of the present does not start the following of reports
   * again.
   */
  #quietUntil = Number.NEGATIVE_INFINITY
  /** The last correction that watchers were told. */
  #told = 0
  #mustAsk = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #isOver = false

  /**
   * `now` reads the wall clock, in milliseconds. `ask` sends a cheap request, whose answer is given
   * to `dated`. `host` is the service's, among the hosts that plugins ask.
   */
  constructor(now: () => number, ask: () => void, host = '') {
    this.#read = now
    this.#host = host
    this.#request = ask
    this.#wall = now() - performance.now()
    this.#offset = this.#wall
  }

  /** Milliseconds to add to this machine's clock; 0 if it agrees with the present. */
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

  /**
   * The present by the newest date of the service alone; undefined if no answer had a date. Like
   * `now`, in milliseconds of Unix time.
   */
  readonly serviceNow = (): number | undefined => {
    const newest = this.#dates.get(this.#host)
    return newest && newest.offset + performance.now()
  }

  /** Calls back when the correction changes. Returns a function that removes the watcher. */
  watch(watcher: (change: ClockChange) => void): () => void {
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  /** A connection has opened. Requests a date, unless an answer brings one soon. */
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

  /** Takes an answer of a host: its headers, and the monotonic times of request and answer. */
  dated(host: string, headers: Headers, sent: number, received: number): void {
    const date = dateOf(headers)
    if (date === undefined) return
    this.#compare(received)
    // The host read its clock between the two times, and dropped the milliseconds.
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

  /** Looks at a live report that is dated after the horizon. */
  look(report: Report, ms: number): void {
    const isAhead = ms > this.now() + GRACE
    const monotonic = performance.now()
    if (isAhead && monotonic - this.#datedAt > FOLLOW_INTERVAL) this.#mustAsk = true
    if (monotonic > this.#followAgain || (isAhead && monotonic > this.#quietUntil))
      this.#followReports()
    if (this.#isFollowing) this.#follow(report, ms, monotonic)
    this.#setHorizon()
  }

  /** The last stream has ended. */
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
      // A small difference is taken over only if the wall clock is the source. If another source is
      // used, the difference stays: small differences then accumulate until they count as a step.
      if (this.#source !== 'machine') return
      this.#wall = wall
      this.#offset = wall
      return
    }
    if (step > 0) {
      // The machine may have slept while the monotonic clock stood still, so old witnesses are
      // wrong.
      this.#dates.clear()
      this.#reports = undefined
    } else {
      // The old present stays as a witness. It is more exact than the reports that agreed with it.
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

  /** Adds a report to its chain, and compares all chains with the present. */
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

  /** The median offset of each origin with enough chains, in ascending order. */
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

  /** Chooses the witness with the most support. */
  #decide(reports?: Witness): void {
    const wall = this.#machine
    const dates = [...this.#dates.values()].reverse()
    const known = [...dates, this.#reports, reports, wall]
    const witnesses = known.filter(witness => witness !== undefined)
    const others = [...dates, wall]
    // Reports that agree with a date or with the wall clock do not give half support to later
    // witnesses.
    const isAlone = (witness: Witness): boolean =>
      witness.source === 'reports' && !others.some(other => agree(witness, other))
    const alone = new Set(witnesses.filter(isAlone))
    let best = wall
    let most = 0
    for (const witness of witnesses) {
      // Reports alone only move the present ahead, because their origin may lag.
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
    // With two agreeing witnesses, reports need not be followed.
    if (most >= 2 && reports === undefined && this.#isFollowing) this.#stopFollowing()
    else if (most < 2 && reports === undefined) this.#followReports()
    this.#setHorizon()
    const { offsetMs } = this
    if (Math.abs(offsetMs - this.#told) <= TOLERANCE) return
    this.#told = offsetMs
    for (const watcher of [...this.#watchers]) watcher({ offsetMs, source })
  }
}

/**
 * How much a witness supports another. Because reports arrive after their time, the true time may
 * be later. So reports without other support give a later witness half their support.
 */
function support(witness: Witness, other: Witness, alone: ReadonlySet<Witness>): number {
  if (agree(witness, other)) return 1
  return alone.has(witness) && witness.offset < other.offset ? 0.5 : 0
}

function agree(one: Witness, other: Witness): boolean {
  return Math.abs(one.offset - other.offset) <= TOLERANCE + Math.max(one.slack, other.slack)
}

/** The present of a clock that was given to the client: nothing corrects it. */
export class GivenPresent extends Present {
  override horizon: number = Number.POSITIVE_INFINITY
  override readonly now: () => number
  override readonly serviceNow: () => number

  constructor(now: () => number) {
    super(now, () => undefined)
    this.now = now
    this.serviceNow = now
  }

  override get offsetMs(): number {
    return 0
  }

  override connected(): void {}

  override dated(): void {}

  override look(): void {}
}

/**
 * Reads the time at which an answer was sent: its date plus its age in a cache, in milliseconds.
 */
function dateOf(headers: Headers): number | undefined {
  const date = headers.get('date') ?? ''
  const age = headers.get('age')?.trim() ?? '0'
  const time = /^[A-Za-z]{3}.* GMT$/.test(date) ? Date.parse(date) : Number.NaN
  const isTime = time > EARLIEST && time < LATEST
  return isTime && /^\d{1,5}$/.test(age) ? time + 1000 * Number(age) : undefined
}

/** Describes a correction of the clock. */
export function describeClock({ offsetMs, source }: ClockChange): string {
  if (offsetMs === 0) return "this machine's clock agrees with the present again"
  const seconds = Math.round(Math.abs(offsetMs) / 1000)
  const direction = offsetMs > 0 ? 'behind' : 'ahead of'
  const who = source === 'reports' ? 'the reports say so' : 'the service says so'
  return `this machine's clock is ${seconds} s ${direction} the present: ${who}`
}
