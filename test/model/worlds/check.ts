// The rules that hold in every world.

import { createHistory, type History } from './history.js'
import type { Outcome } from './run-world.js'
import type { AnnouncedGap, FeedLog, Passed, Session } from './session.js'
import { type Observation, START, type WorldFeed } from './world.js'

/** What was found wrong in a world, and what was found. */
export interface Findings {
  /** Each with its class before the colon. */
  readonly broken: readonly string[]
  /** Stored reports that were neither delivered nor announced, as nobody could know of them, by reason. */
  readonly excused: ReadonlyMap<string, number>
  /** What is worth counting. */
  readonly counts: ReadonlyMap<string, number>
}

/** One feed in one session. */
interface Place {
  readonly outcome: Outcome
  readonly feed: WorldFeed
  readonly index: number
  readonly session: Session
  readonly log: FeedLog
  /** The place in the order of what happened of each time that was delivered. */
  readonly deliveredAt: ReadonlyMap<number, number>
  broke(rule: string, text: string): void
}

/** Milliseconds from one reset of connections to the next, at least. */
const RESETTING = 30_000
/** Milliseconds after which a report that is not stored makes the store lag. */
const LAGGING = 10_000
/** Milliseconds after which a range without an answer is announced. */
const GIVEN_UP = 50_000
/** Milliseconds that a report waits in sorted order, at most. */
const MAX_HOLD = 30_000
/** How many of the newest times are known exactly, at least, and how many runs behind them. */
const EXACT = 512
const RUNS = 256

const isIn = ({ from, to }: { readonly from: number; readonly to: number }, time: number) =>
  from <= time && time <= to

/** Holds a world to its rules. */
export function checkWorld(outcome: Outcome): Findings {
  const { world, sessions, timers } = outcome
  const broken: string[] = []
  const excused = new Map<string, number>()
  const counts = new Map<string, number>()
  const add = (sums: Map<string, number>, name: string, count = 1): void =>
    void sums.set(name, (sums.get(name) ?? 0) + count)

  if (timers > 0) broken.push(`timers: ${timers} are left`)
  for (const [feedIndex, feed] of world.feeds.entries()) {
    const places = sessions.map((session, at): Place => {
      const log = session.feeds[feedIndex] as FeedLog
      const where = `feed ${feedIndex}${at > 0 ? `, stream ${at + 1}` : ''}`
      const broke = (rule: string, text: string) => void broken.push(`${rule}: ${text} (${where})`)
      const deliveredAt = new Map(log.delivered.map(each => [each.to, each.order]))
      return { outcome, feed, index: feedIndex, session, log, deliveredAt, broke }
    })
    for (const place of places) {
      checkOnce(place)
      checkGaps(place, name => add(counts, name))
      checkOrder(place, name => add(counts, name))
    }
    checkCursors(
      places,
      name => add(excused, name),
      name => add(counts, name),
    )
    checkWhole(places, name => add(excused, name))
    checkRequests(places)
    add(counts, 'reports', feed.observations.length)
  }
  for (const { errors, conflicts, resets, stales, strangers } of sessions) {
    for (const error of errors)
      if (!/later than the present, and was put back/.test(error.message))
        broken.push(`error: ${String(error)}`)
    for (const { other } of conflicts)
      broken.push(`conflict: at ${other.observationsTimestamp}, though all copies are the same`)
    for (const { feedID } of strangers) broken.push(`stranger: a report of ${feedID} was delivered`)
    if (resets.some((at, index) => at - (resets[index - 1] ?? -RESETTING) < RESETTING))
      broken.push(`resets: at ${resets.join(', ')} ms`)
    if (resets.length > 0 && stales === 0) broken.push('resets: no feed was stale')
    add(counts, 'resets', resets.length)
  }
  add(counts, 'pages', outcome.requests.length)
  return { broken, excused, counts }
}

function checkOnce({ log, deliveredAt, broke }: Place): void {
  if (deliveredAt.size === log.delivered.length) return
  const known = new Set<number>()
  for (const { to } of log.delivered) {
    if (known.has(to)) broke('doubled', `${to}`)
    known.add(to)
  }
}

function checkGaps(place: Place, count: (name: string) => void): void {
  const { log, deliveredAt, broke } = place
  const { gaps, filled, entered } = log
  for (const [at, gap] of gaps.entries()) {
    const { from, to, cause } = gap
    const text = `${from}..${to} ${cause} at ${gap.at / 1000} s`
    count(`gaps ${cause}`)
    if (from > to) broke('gap', `${text} has no length`)
    for (const other of gaps.slice(0, at))
      if (from <= other.to && to >= other.from)
        broke('gap beside', `${text} overlaps ${other.from}..${other.to} ${other.cause}`)
    for (const [time, { order }] of entered)
      if (isIn(gap, time) && Math.min(order, deliveredAt.get(time) ?? order) < gap.order)
        broke('gap over delivered', `${text} holds ${time}`)
    if (isClaimed(place, gap)) count(`linked gaps ${cause}`)
    checkCause(place, gap, text, count)
  }
  const late = log.delivered.filter(({ to, order }) =>
    gaps.some(gap => isIn(gap, to) && gap.order < order),
  )
  const announced = new Set(filled.map(({ time }) => time))
  for (const { to } of late)
    if (!announced.has(to)) broke('gap not filled', `${to} came after its gap`)
  for (const { time } of filled)
    if (!late.some(({ to }) => to === time)) broke('gap filled', `${time} was in no gap`)
  if (announced.size < filled.length) broke('gap filled', 'more than once by one report')
}

/** The next report that was delivered says that nothing is in a gap, and the one before it was delivered, too. */
function isClaimed({ log, deliveredAt }: Place, gap: AnnouncedGap): boolean {
  let next: Passed | undefined
  for (const each of log.delivered)
    if (
      each.to > gap.to &&
      each.order < gap.order &&
      each.to < (next?.to ?? Number.POSITIVE_INFINITY)
    )
      next = each
  if (next === undefined || next.from > gap.from) return false
  return (deliveredAt.get(next.from - 1) ?? gap.order) < gap.order
}

/** A cause must be true. */
function checkCause(
  { outcome, feed, index, session, broke }: Place,
  gap: AnnouncedGap,
  text: string,
  count: (name: string) => void,
): void {
  const { world, requests } = outcome
  const { cause } = gap
  const published = feed.observations.filter(({ to, at }) => isIn(gap, to) && at <= gap.at)
  const isEmpty = published.length === 0
  if (isEmpty) count(`empty gaps ${cause}`)
  if (isEmpty && world.isPlain) broke('gap over nothing', text)
  if (cause === 'upstream')
    for (const observation of published) {
      const look = requests.findLast(
        ({ feed: asked, from, lookedAt, shownTo }) =>
          asked === index &&
          lookedAt <= gap.at &&
          lookedAt >= session.startedAt &&
          from <= observation.to &&
          shownTo !== undefined &&
          shownTo >= observation.to,
      )
      const { storedAt = Number.POSITIVE_INFINITY } = observation
      if (look === undefined) broke('gap unasked', `${text} holds ${observation.to}`)
      else if (storedAt <= look.lookedAt)
        broke('gap over stored', `${text} holds ${observation.to}, stored ${storedAt / 1000} s`)
    }
  if (cause === 'backfill-limit') {
    const { maxBackfill = 300_000 } = world.continuity
    // It is counted back from the present, which a clock that is ahead may be wrong about until the reports have spoken.
    const { error, date = error } = world.clocks
    // A date has no milliseconds.
    const ahead = Math.max(0, date) + (world.clocks.date === undefined ? 0 : 1000)
    const present = ((START + gap.at + ahead) / 1000) * feed.second
    const oldest = present - (maxBackfill / 1000) * feed.second
    for (const { to, storedAt } of published)
      if (storedAt !== undefined && to > oldest) broke('gap backfill-limit', `${text} holds ${to}`)
  }
  const mayFail =
    world.faults.fails + world.faults.isSlow > 0 ||
    world.events.some(({ type }) => type === 'rest-away') ||
    feed.observations.some(
      ({ at, storedAt = Number.POSITIVE_INFINITY }) => storedAt - at > GIVEN_UP,
    )
  if (cause === 'unavailable' && session.endedAt !== gap.at && !mayFail)
    broke('gap unavailable', text)
}

function checkOrder({ outcome, log, broke }: Place, count: (name: string) => void): void {
  if (outcome.world.continuity.order !== 'sorted') return
  let newest = Number.NEGATIVE_INFINITY
  for (const { to } of log.delivered) {
    if (to < newest && outcome.world.isPlain) broke('order', `${to} came after ${newest}`)
    if (to < newest) count('out of order')
    newest = Math.max(newest, to)
  }
}

/** What has come in is passed on; what is below the cursor and comes again in a later stream is counted. */
function checkCursors(
  places: readonly Place[],
  excuse: (reason: string) => void,
  count: (name: string) => void,
): void {
  for (const [at, { log, session, deliveredAt, outcome, broke }] of places.entries()) {
    const { cursor = Number.NEGATIVE_INFINITY } = log
    const before = places.slice(0, at)
    for (const { to } of log.delivered)
      if (to <= cursor && before.some(each => each.deliveredAt.has(to)))
        count('again in a later stream')
    const wasClosed =
      at < places.length - 1 &&
      outcome.world.events.some(
        event => event.type === 'restart' && event.at === session.endedAt && event.by === 'close',
      )
    for (const to of log.arrived) {
      if (deliveredAt.has(to) || before.some(each => each.deliveredAt.has(to)) || wasClosed)
        continue
      // The report dated like the cursor counts as acknowledged.
      if (to === cursor) excuse('dated like the cursor')
      else if (isBehind(log, to)) excuse('behind the exact times')
      else if (isBetweenJoined(log, to)) excuse('between two runs that became one')
      else broke('dropped', `${to} was not passed on`)
    }
  }
}

/** When a report came, many newer ones had been seen, and a later one had said that it does not exist: it is taken for a copy. */
function isBehind({ entered }: FeedLog, time: number): boolean {
  const newer: Passed[] = []
  for (const each of entered.values()) {
    if (each.to === time) break
    if (each.to > time) newer.push(each)
  }
  return newer.length >= EXACT && newer.some(({ from }) => from <= time)
}

/**
 * When a report came, there were more runs behind the exact times than are known, and as many pairs of neighbours as are known at all
 * had no less between them than the two around it: it is taken for a copy.
 */
function isBetweenJoined({ entered }: FeedLog, time: number): boolean {
  const all = [...entered.values()]
  const before = all.slice(
    0,
    all.findIndex(({ to }) => to === time),
  )
  const behind = before.sort((one, other) => one.to - other.to).slice(0, -EXACT)
  const at = behind.findIndex(({ to }) => to > time)
  if (at < 1) return false
  const widths = behind.slice(1).map(({ from, to }, index) => {
    const { to: below } = behind[index] as Passed
    return from === below + 1 ? 0 : to - below
  })
  const width = widths[at - 1] as number
  return width > 0 && widths.filter(each => each >= width).length >= RUNS
}

/** Each stored report is delivered or lies in a gap, from the first one known to the newest. */
function checkWhole(places: readonly Place[], excuse: (reason: string) => void): void {
  const histories = new Map<Place, History>()
  const [{ feed, outcome }] = places as [Place]
  for (const observation of feed.observations) {
    const { to, storedAt } = observation
    if (storedAt === undefined && !outcome.world.isPlain) continue
    if (places.some(({ deliveredAt }) => deliveredAt.has(to))) continue
    const place = places.findLast(({ log }) => to > (log.cursor ?? Number.NEGATIVE_INFINITY))
    if (place === undefined || place.log.gaps.some(gap => isIn(gap, to))) continue
    const history = histories.get(place) ?? createHistory(place.log)
    histories.set(place, history)
    const reason = history.reasonFor(observation)
    if (reason === 'unknown') continue
    if (reason !== undefined) excuse(reason)
    else if (places.slice(places.indexOf(place) + 1).some(later => isUnknown(later, to)))
      excuse('before a cursor that was put back')
    // Its time has not come when the world ends.
    else if (aheadOf(feed, { to, at: outcome.lasted }) > -15) continue
    // What came over a connection and was not passed on has been looked at.
    else if (place.log.entered.has(to)) {
      if (!place.log.arrived.has(to) && !isWaiting(place, to))
        place.broke('dropped', `${to} was not passed on`)
    } else if (isLastOfTurnedClock(place.feed, history, observation))
      excuse('last of a clock turned back')
    else place.broke(lossOf(place, observation), describeLoss(place, history, observation))
  }
}

/** A stream's cursor was later than the present: nobody knows what was taken longer than `maxBackfill` before its first report. */
function isUnknown({ outcome, feed, session, log }: Place, time: number): boolean {
  const { cursor = Number.NEGATIVE_INFINITY } = log
  if (aheadOf(feed, { to: cursor, at: session.startedAt }) < 5) return false
  const { maxBackfill = 300_000 } = outcome.world.continuity
  const [first = Number.NEGATIVE_INFINITY] = log.entered.keys()
  return time < first - (maxBackfill / 1000) * feed.second
}

/** Whether a report still waits when the world ends. */
function isWaiting({ outcome, log }: Place, time: number): boolean {
  const { at = 0 } = log.entered.get(time) ?? {}
  return outcome.world.continuity.order === 'sorted' && outcome.lasted - at < MAX_HOLD
}

/** Dated before what had come already, whose time had passed, and nothing came after it: who would ask once more? */
function isLastOfTurnedClock(feed: WorldFeed, history: History, { to, at }: Observation): boolean {
  const [, above] = history.around(to)
  if (above === undefined || above.at >= at) return false
  return !isAhead(feed, above) || aheadOf(feed, { to: above.to, at }) < -10
}

function lossOf({ session, outcome }: Place, { storedAt }: Observation): string {
  if (storedAt === undefined) return 'not announced'
  const { endedAt = Number.POSITIVE_INFINITY } = session
  return endedAt < outcome.settledAt && storedAt > endedAt ? 'lost, stored after the end' : 'lost'
}

/** Seconds by which a report is dated later than the present at a time. */
function aheadOf({ second }: WorldFeed, { to, at }: Pick<Passed, 'to' | 'at'>): number {
  return to / second - (START + at) / 1000
}

function isAhead(feed: WorldFeed, report: Passed): boolean {
  return aheadOf(feed, report) > 5
}

function describeLoss(
  { feed, log }: Place,
  history: History,
  { from, to, storedAt }: Observation,
): string {
  const [below, above] = history.around(to)
  const stored = storedAt === undefined ? 'never stored' : `stored at ${storedAt / 1000} s`
  return `${from}..${to}, ${stored}, between ${below} and ${describeNext()}`

  function describeNext(): string {
    if (above === undefined) return 'nothing'
    const { at, source } = above
    const first = Math.min(
      ...[...log.entered.values()].filter(each => each.at < at).map(each => each.to),
    )
    const facts = [
      `${source} at ${at / 1000} s`,
      ...(isAhead(feed, above) ? [`ahead by ${Math.round(aheadOf(feed, above))} s`] : []),
      ...(above.from <= first ? ['from before the first'] : []),
    ]
    return `${above.from}..${above.to} (${facts.join(', ')})`
  }
}

/** Looks: four for each range that may be certain, one in ten seconds for others, and as many as it takes for what is found. */
function checkRequests(places: readonly Place[]): void {
  const [{ outcome, index, broke }] = places as [Place]
  const requests = outcome.requests.filter(({ feed }) => feed === index)
  const failed = requests.filter(({ shownTo }) => shownTo === undefined).length
  const periods = Math.ceil(outcome.lasted / 10_000) + 2 * places.length
  if (requests.length <= periods + failed) return
  // While the store lags, a range is asked for again and again, for a minute or two.
  const lags = places[0]?.feed.observations.some(
    ({ at, storedAt = Number.POSITIVE_INFINITY }) => storedAt - at > LAGGING,
  )
  const unlinked = places.reduce((sum, { log }) => sum + createHistory(log).unlinked, 0)
  const found = places.reduce((sum, { log }) => sum + log.delivered.length, 0)
  const looks = lags === true ? 12 : 4
  const most = periods + looks * unlinked + Math.ceil(found / 100) + failed
  if (requests.length > most) broke('requests', `${requests.length}, and ${most} at most`)
}
