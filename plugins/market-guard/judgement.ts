import { feedResolution, feedVersion } from '../../report/feed-id.js'
import { type HoursModel, meaningOf } from './hours.js'
import type { Policy } from './policy.js'
import { type MarketReason, marketReasons } from './reasons.js'

/** The fields of decoded reports that a guard reads. The version decides which of them exist. */
export type ReadFields = Readonly<Record<string, bigint | number>>

/** What a report says. Times are in milliseconds of Unix time. */
interface Facts {
  observedAt: number
  expiresAt: number
  /** The time of the value, if the version has it. Otherwise the time of the report. */
  updatedAt: number
  /** -1 if the version has none. */
  status: number
  price: number
  bid: number
  ask: number
  /** The least of all prices in the report. */
  least: number
  ripcord: number
  multiplier: number
  /** When a staged multiplier takes effect; 0 if none is staged. */
  activatesAt: number
  contractMonth: number
  contractExpiry: number
}

type Value = bigint | number | undefined

function setPrice(facts: Facts, price: Value, bid: Value, ask: Value): void {
  facts.price = Number(price)
  facts.bid = Number(bid)
  facts.ask = Number(ask)
  facts.least = Math.min(facts.price, facts.bid, facts.ask)
}

function setMarket(facts: Facts, status: Value, updatedNs: Value): void {
  facts.status = Number(status)
  facts.updatedAt = Number(updatedNs) / 1e6
}

type Read = (facts: Facts, fields: ReadFields, policy: Policy) => void

const readNav: Read = (facts, { navPerShare: nav, ripcord }) => {
  setPrice(facts, nav, nav, nav)
  facts.ripcord = Number(ripcord)
}

/** How the reports of each version are read. Without bid and ask, the price is in their place. */
const schemas: Readonly<Record<number, Read>> = {
  2: (facts, { price }) => setPrice(facts, price, price, price),
  3: (facts, { price, bid, ask }) => setPrice(facts, price, bid, ask),
  4(facts, { price, marketStatus }) {
    setPrice(facts, price, price, price)
    facts.status = Number(marketStatus)
  },
  5: (facts, { rate }) => setPrice(facts, rate, rate, rate),
  6(facts, { price, price2, price3, price4, price5 }) {
    setPrice(facts, price, price, price)
    const firsts = Math.min(facts.price, Number(price2), Number(price3))
    facts.least = Math.min(firsts, Number(price4), Number(price5))
  },
  7: (facts, { exchangeRate: rate }) => setPrice(facts, rate, rate, rate),
  8(facts, { midPrice, marketStatus, lastUpdateTimestamp }) {
    setPrice(facts, midPrice, midPrice, midPrice)
    setMarket(facts, marketStatus, lastUpdateTimestamp)
  },
  9: readNav,
  10(facts, fields, { tokenized }) {
    const price = tokenized ? fields.tokenizedPrice : fields.price
    setPrice(facts, price, price, price)
    // The time of the update is that of `price`.
    if (tokenized) facts.status = Number(fields.marketStatus)
    else setMarket(facts, fields.marketStatus, fields.lastUpdateTimestamp)
    facts.multiplier = Number(fields.currentMultiplier)
    facts.activatesAt = 1000 * Number(fields.activationDateTime)
  },
  11(facts, { mid, bid, ask, marketStatus, lastSeenTimestampNs }) {
    setPrice(facts, mid, bid, ask)
    setMarket(facts, marketStatus, lastSeenTimestampNs)
  },
  12: readNav,
  13: (facts, { bestBid, bestAsk }) =>
    setPrice(facts, (Number(bestBid) + Number(bestAsk)) / 2, bestBid, bestAsk),
  14(facts, fields) {
    setPrice(facts, fields.midPrice, fields.bidPrice, fields.askPrice)
    setMarket(facts, fields.marketStatus, fields.lastSeenTimestampNs)
    facts.contractMonth = Number(fields.contractMonth)
    facts.contractExpiry = Number(fields.expiryTime)
  },
}
/** The versions whose reports have the time of their value. */
const dated: ReadonlySet<number> = new Set([8, 10, 11, 14])

const NEVER = Number.NEGATIVE_INFINITY
const FOREVER = Number.POSITIVE_INFINITY
/** A time may be this many milliseconds ahead of the present. */
export const GRACE = 5000
/** The status of the overnight session in reports of version 11. */
const OVERNIGHT = 4

/** What a guard remembers of a feed: the facts of its newest report, and what led to them. */
export class MarketFeed {
  readonly feedID: string
  readonly version: number
  readonly policy: Policy
  readonly read: Read | undefined
  /** Whether the reports have the time of their value. */
  readonly isDated: boolean
  /** Milliseconds in the unit of the feed's times. */
  readonly unit: number
  /** The hours model. Only reports of version 11 need one. */
  model: HoursModel | undefined
  /** When the feed is going to retire, and when it retired. */
  retiringAt: number = FOREVER
  retiredAt: number = FOREVER
  readonly facts: Facts
  /** Whether a report has come. */
  hasReport = false
  /** Why the newest report can't be judged. */
  problem: MarketReason | undefined
  /** What the status means. */
  standing: MarketReason = 'open'
  /** What is wrong with the values of the newest report; `open` if nothing is. */
  fault: MarketReason = 'open'
  /** The clock may change the verdict at this time, without a report. */
  until: number = FOREVER
  /** The time of the newest report, in the feed's unit. */
  observed: number = NEVER
  /** Prices within this band are near enough to the accepted price, and to each other. */
  low = 1n
  high = 0n
  /** `newestUpdate` as the report has it. */
  newestNs = 0n

  /** Whether the market was closed when its status was last known. */
  isShut = false
  /** Whether the price since the opening is still that of the close. */
  awaitsQuote = false
  shutUpdate: number = NEVER
  shutPrice: number = Number.NaN
  openedAt: number = NEVER
  /** The last status that was open; -1 before the first. */
  session = -1
  sessionAt: number = NEVER
  carriedBid: number = Number.NaN
  carriedAsk: number = Number.NaN
  rolledAt: number = NEVER
  /** The latest time of a value, and how many reports in a row have been behind it. */
  newestUpdate: number = NEVER
  reportsBack = 0
  /** The last accepted price; NaN if there is none. */
  accepted: number = Number.NaN
  /** The price after a jump, and since when it has kept this level; NaN without a jump. */
  jumped: number = Number.NaN
  jumpedAt: number = NEVER
  /** price × multiplier before the multiplier changed; NaN if it has not, or the price followed. */
  product: number = Number.NaN
  productUpdate: number = NEVER

  constructor(feedID: string, policy: Policy, model: HoursModel | undefined) {
    this.feedID = feedID
    this.version = feedVersion(feedID)
    this.policy = policy
    this.read = schemas[this.version]
    this.isDated = dated.has(this.version) && !policy.tokenized
    this.unit = feedResolution(feedID) === 's' ? 1000 : 1
    this.model = model
    this.facts = createFacts()
  }

  /** The hours model has become known. */
  follow(model: HoursModel | undefined): void {
    if (this.model === model) return
    this.model = model
    if (!this.hasReport) return
    this.standing = standingOf(this, this.facts)
    this.isShut = isShut(this.standing)
    this.shutUpdate = this.facts.updatedAt
    this.session = isOpen(this.standing) ? this.facts.status : -1
  }

  /** Accepts the newest price, however far it is from the price before it. */
  accept(): void {
    this.accepted = this.fault === 'open' ? this.facts.price : Number.NaN
    this.jumped = Number.NaN
    this.product = Number.NaN
  }
}

function createFacts(): Facts {
  return {
    observedAt: NEVER,
    expiresAt: FOREVER,
    updatedAt: NEVER,
    status: -1,
    price: Number.NaN,
    bid: Number.NaN,
    ask: Number.NaN,
    least: Number.NaN,
    ripcord: 0,
    multiplier: Number.NaN,
    activatesAt: 0,
    contractMonth: 0,
    contractExpiry: 0,
  }
}

const isOpen = (standing: MarketReason): boolean => marketReasons[standing].tradable
const isShut = (standing: MarketReason): boolean =>
  standing === 'closed' || standing === 'other-session'

function standingOf(feed: MarketFeed, { status }: Facts): MarketReason {
  if (status === -1) return 'open'
  const { version, model, policy } = feed
  const standing = meaningOf(version, status, model, policy.openStatus)
  const goesOn = version === 10 && policy.tokenized && standing === 'closed'
  return goesOn ? 'off-hours' : standing
}

function readFacts(feed: MarketFeed, facts: Facts, fields: ReadFields, now: number): void {
  facts.observedAt = feed.unit * Number(fields.observationsTimestamp)
  facts.expiresAt = feed.unit * Number(fields.expiresAt)
  facts.updatedAt = facts.observedAt
  feed.read?.(facts, fields, feed.policy)
  // Clocks differ. A time far in the future would keep a value fresh for too long.
  if (!(facts.updatedAt <= now)) facts.updatedAt = facts.updatedAt <= now + GRACE ? now : NEVER
}

/** What is wrong with the values of a report by themselves; `open` if nothing is. */
function findFault(feed: MarketFeed, { least, price, bid, ask }: Facts): MarketReason {
  const { values, maxSpread } = feed.policy
  const isAllowed =
    values === 'positive' ? least > 0 : values === 'any' ? !Number.isNaN(least) : least >= 0
  if (!isAllowed) return 'bad-value'
  if (bid > ask) return 'crossed'
  return ask - bid > maxSpread * Math.abs(price) ? 'wide-spread' : 'open'
}

/** Whether a price is within a share of another. */
function isNear(price: number, other: number, share: number): boolean {
  return share === FOREVER || Math.abs(price - other) <= share * Math.abs(other)
}

/** A report that is read on the hot path. */
interface Quote {
  readonly price: bigint
  readonly mid: bigint
  readonly bid: bigint
  readonly ask: bigint
  readonly marketStatus: number
  readonly lastSeenTimestampNs: bigint
}

/**
 * Whether a newer report can't change a verdict that holds by the clock: the status is the same,
 * the value is not older than before, and all prices are in the band. It notes the time of the
 * value. Only frequent versions are read so.
 */
export function isCalm(feed: MarketFeed, fields: ReadFields): boolean {
  const { low, high, version } = feed
  const { bid, ask } = fields as unknown as Quote
  if (!(bid >= low && ask <= high)) return false
  if (version === 3) {
    const { price } = fields as unknown as Quote
    return bid <= price && price <= ask
  }
  const { mid, marketStatus, lastSeenTimestampNs: seen } = fields as unknown as Quote
  if (!(bid <= mid && mid <= ask && marketStatus === feed.facts.status && seen >= feed.newestNs))
    return false
  feed.newestNs = seen
  return true
}

/** Sets the band around an accepted price. Half of it may be the spread, or a move. */
function setBand(feed: MarketFeed, fields: ReadFields): void {
  const { version, accepted, policy } = feed
  if (version !== 3 && version !== 11) return
  const share = Math.min(policy.maxDeviation, policy.maxSpread, 1) / 4
  const width = BigInt(Math.floor(share * accepted))
  const price = fields[version === 3 ? 'price' : 'mid']
  // Another decoder may give numbers.
  if (typeof price !== 'bigint') return
  feed.low = price - width
  feed.high = price + width
  if (version === 11) feed.newestNs = fields.lastSeenTimestampNs as bigint
}

/** Remembers a report, which must be newer than the feed's others. */
export function observe(feed: MarketFeed, fields: ReadFields, now: number): void {
  const { facts } = feed
  const { status, bid, ask, price, multiplier, contractMonth, contractExpiry } = facts
  readFacts(feed, facts, fields, now)
  feed.problem = feed.read === undefined ? 'unknown-schema' : undefined
  if (facts.status !== status) changeStatus(feed, bid, ask, now)
  feed.fault = findFault(feed, facts)
  if (feed.hasReport) {
    if (facts.contractMonth !== contractMonth || facts.contractExpiry !== contractExpiry) {
      feed.rolledAt = now
      feed.accepted = Number.NaN
    }
    if (facts.multiplier !== multiplier && feed.version === 10)
      changeMultiplier(feed, price, multiplier)
  }
  feed.hasReport = true
  if (facts.updatedAt < feed.newestUpdate) feed.reportsBack++
  else {
    feed.newestUpdate = facts.updatedAt
    feed.reportsBack = 0
  }
  if (feed.isShut) {
    feed.shutUpdate = facts.updatedAt
    feed.shutPrice = facts.price
  } else if (isOpen(feed.standing)) placeValue(feed, now)
  // Without an accepted price the band is empty.
  if (feed.accepted === facts.price && facts.price > 0) setBand(feed, fields)
  else feed.low = feed.high + 1n
}

function changeStatus(feed: MarketFeed, bid: number, ask: number, now: number): void {
  const { status } = feed.facts
  feed.standing = standingOf(feed, feed.facts)
  if (isShut(feed.standing)) feed.isShut = true
  if (!isOpen(feed.standing)) return
  if (feed.isShut) {
    feed.isShut = false
    feed.awaitsQuote = true
  } else if (feed.standing === 'open' && feed.session !== -1 && feed.session !== status)
    feed.sessionAt = now
  if (feed.version === 11 && status === OVERNIGHT && feed.session !== status) {
    feed.carriedBid = bid
    feed.carriedAsk = ask
  }
  if (feed.standing === 'open') feed.session = status
}

/** The price × multiplier before the change is what the price has to come back to. */
function changeMultiplier(feed: MarketFeed, price: number, multiplier: number): void {
  // The price of a token does not follow its multiplier.
  if (feed.policy.tokenized) return
  if (Number.isNaN(feed.product))
    feed.product = multiplier * (Number.isNaN(feed.accepted) ? price : feed.accepted)
  feed.productUpdate = feed.facts.updatedAt
}

/** Places the value of an open market: is it new, did it jump, is it accepted? */
function placeValue(feed: MarketFeed, now: number): void {
  const { facts, policy, accepted } = feed
  const { price, updatedAt, multiplier } = facts
  if (feed.awaitsQuote) {
    const isNew = feed.isDated ? updatedAt > feed.shutUpdate : price !== feed.shutPrice
    if (!isNew) return
    feed.awaitsQuote = false
    feed.openedAt = now
  }
  if (facts.bid !== feed.carriedBid || facts.ask !== feed.carriedAsk) feed.carriedBid = Number.NaN
  if (feed.fault !== 'open') return
  if (!Number.isNaN(feed.product)) {
    const hasFollowed =
      updatedAt > feed.productUpdate &&
      isNear(price * multiplier, feed.product, policy.multiplierTolerance)
    if (hasFollowed) feed.accept()
    return
  }
  if (Number.isNaN(accepted) || isNear(price, accepted, policy.maxDeviation)) {
    feed.accepted = price
    feed.jumped = Number.NaN
    return
  }
  if (!isNear(price, feed.jumped, policy.maxDeviation)) feed.jumpedAt = now
  feed.jumped = price
  if (now - feed.jumpedAt >= policy.jumpTime) feed.accept()
}

/**
 * The verdict on a feed at a time: the first reason of the table that holds. Sets `until`, the next
 * time at which the clock alone may change the verdict.
 */
export function judge(feed: MarketFeed, now: number): MarketReason {
  const { facts, policy, standing } = feed
  feed.until = FOREVER
  if (passes(feed, feed.retiredAt, now)) return 'retired'
  if (feed.problem !== undefined) return feed.problem
  if (!feed.hasReport) return 'no-report'
  if (facts.ripcord !== 0) return 'ripcord'
  if (!isOpen(standing)) return standing
  const isStaged = facts.activatesAt !== 0
  if (isStaged && passes(feed, facts.activatesAt - policy.activationLead, now)) return 'action-near'
  if (!Number.isNaN(feed.product)) return 'multiplier-changed'
  if (feed.awaitsQuote) return 'stale-after-open'
  if (passes(feed, facts.expiresAt - policy.expirySlack, now)) return 'expired'
  const isQuiet = passes(feed, facts.updatedAt + policy.delay + policy.maxAge, now)
  const rests = feed.model === 'top-of-book'
  if (isQuiet && !(rests && !passes(feed, facts.updatedAt + policy.maxQuiet, now))) return 'stale'
  if (feed.fault !== 'open') return feed.fault
  if (!Number.isNaN(feed.jumped)) return 'jump'
  const isNewSession = !passes(feed, feed.sessionAt + policy.sessionTime, now)
  if (isNewSession && policy.sessionChange === 'pause') return 'session-pause'
  if (standing !== 'open') return standing
  if (!passes(feed, feed.rolledAt + policy.rollTime, now)) return 'contract-rolled'
  if (!Number.isNaN(feed.carriedBid)) return 'carry-over'
  if (!passes(feed, feed.openedAt + policy.openingTime, now)) return 'just-opened'
  if (isNewSession) return 'session-change'
  if (isQuiet) return 'quiet'
  if (policy.delay > 0) return 'delayed'
  if (feed.reportsBack >= policy.timeBackReports) return 'time-stays-back'
  if (isStaged) return 'action-staged'
  if (passes(feed, feed.retiringAt - policy.decommissionLead, now)) return 'retiring'
  return feed.reportsBack > 0 ? 'time-back' : 'open'
}

/** Whether a time has come. If it has not, the verdict may change when it comes. */
function passes(feed: MarketFeed, time: number, now: number): boolean {
  if (now >= time) return true
  if (time < feed.until) feed.until = time
  return false
}

/** Whether a report that is not the newest of its feed is tradable by what it says itself. */
export function isTradableAlone(feed: MarketFeed, fields: ReadFields, now: number): boolean {
  const facts = createFacts()
  readFacts(feed, facts, fields, now)
  const { maxAge, delay, expirySlack } = feed.policy
  return (
    facts.ripcord === 0 &&
    isOpen(standingOf(feed, facts)) &&
    now < facts.updatedAt + delay + maxAge &&
    now < facts.expiresAt - expirySlack &&
    findFault(feed, facts) === 'open'
  )
}
