import type {
  About,
  FeedDetails,
  Latency,
  Load,
  Message,
  Need,
  OriginRow,
  RateDetails,
  StackRow,
  Totals,
  Verdict,
} from '../messages.js'
import { createLatencyChart, createRateChart } from './charts.js'
import { ask, follow, type LinkState, takeToken } from './connection.js'
import { byID, formatAge, formatCount, formatMoment, make, setData, setText } from './dom.js'
import { createEventsView } from './events-view.js'
import { createFeedView, wantedFeed } from './feed-view.js'
import { createFeedsView } from './feeds-view.js'
import { createRangeChoice } from './range.js'
import { createOriginsView, drawStack } from './tables-view.js'
import { startTheme } from './theme.js'

/** The sign at the start of the page's title, because a title has no colours. */
const marks: Readonly<Record<string, string>> = {
  ok: '✓',
  starting: '…',
  degraded: '▲',
  down: '✕',
  lost: '✕',
}

/**
 * Milliseconds between two drawings if the user prefers reduced motion, and between two updates of
 * the ages.
 */
const SLOW = 1000

const feeds = createFeedsView()
const events = createEventsView()
const rateChart = createRateChart()
const latencyChart = createLatencyChart()
const feedView = createFeedView()
const drawOrigins = createOriginsView()
const range = createRangeChoice(() => void readDetails())
const token: string | undefined = takeToken()
const origins = new Map<string, OriginRow>()
const stack: StackRow[] = []
const prefersLess: MediaQueryList = matchMedia('(prefers-reduced-motion: reduce)')
let startedAt: number | undefined
let wire = ''
let verdict: Verdict | undefined
let link: LinkState = 'connecting'
/** The reason that the server gives if it refuses the connection. */
let refusal: string | undefined
/** The server's time minus `performance.now()`, a clock that never goes back. */
let ahead = 0
let lastMessage: number | undefined
let lastSample = 0
let drawnAt = 0
let isPaused = false

const now = (): number => performance.now() + ahead

function take(message: Message): void {
  ahead = message.now - performance.now()
  lastMessage = performance.now()
  for (const row of message.about ?? []) showAbout(row)
  if (message.verdict !== undefined) verdict = message.verdict[0]
  if (!isPaused) show(message)
  showVerdict()
}

/**
 * Shows the source. If the monitor has restarted, the feeds have other numbers, so the page
 * reloads.
 */
function showAbout(about: About): void {
  startedAt ??= about.startedAt
  if (startedAt !== about.startedAt) location.reload()
  wire = about.wire
  setText(byID('source'), about.source)
}

function show(message: Message): void {
  for (const row of message.names ?? []) feeds.name(row)
  for (const row of message.feeds ?? []) feeds.update(row)
  for (const row of message.markets ?? []) feeds.judge(row)
  for (const row of message.samples ?? []) {
    if (row.at <= lastSample) continue
    lastSample = row.at
    feeds.sample(row)
  }
  for (const row of message.events ?? []) events.add(row)
  for (const row of message.origins ?? []) origins.set(`${row.name} ${row.host}`, row)
  for (const row of message.stack ?? []) stack[row.index] = row
  for (const row of message.latency ?? []) showLatency(row)
  for (const row of message.totals ?? []) showTotals(row)
  for (const row of message.load ?? []) showLoad(row)
  if (message.origins !== undefined) drawOrigins([...origins.values()], now())
  if (message.stack !== undefined) drawStack(stack, wire)
  draw()
}

function draw(): void {
  const at = performance.now()
  if (document.hidden || at - drawnAt < (prefersLess.matches ? SLOW : 0)) return
  drawnAt = at
  feeds.draw(now())
}

/** A verdict of the server, or of the page if it has none. */
type ShownVerdict = Pick<Verdict, 'headline' | 'facts'> & {
  readonly level: Verdict['level'] | 'lost'
  readonly needs?: readonly Need[]
}

/**
 * A lost connection to the monitor comes first, because everything else on the page is then
 * outdated.
 */
function readVerdict(): ShownVerdict {
  if (link === 'unauthorised')
    return {
      level: 'lost',
      headline: 'The token is missing',
      facts: ['open the URL that the command has printed'],
    }
  if (link === 'lost') {
    const values =
      lastMessage === undefined
        ? 'no values yet'
        : `values of ${formatAge(performance.now() - lastMessage)} ago`
    const headline =
      refusal === undefined ? 'The monitor does not answer' : 'The monitor refuses this page'
    return { level: 'lost', headline, facts: [...(refusal === undefined ? [] : [refusal]), values] }
  }
  return verdict ?? { level: 'starting', headline: 'Connecting to the monitor', facts: [] }
}

function showVerdict(): void {
  const { level, headline, facts, needs = [] } = readVerdict()
  const section = byID('verdict')
  const isOther = section.dataset.level !== level
  setData(section, 'level', level)
  setData(document.body, 'link', link)
  setText(byID('headline'), headline)
  showNeeds(needs)
  const list = byID('facts')
  if (list.textContent !== facts.join(''))
    list.replaceChildren(...facts.map(fact => make('li', '', fact)))
  const title = `${marks[level]} ${facts[0] ?? headline} · sluice`
  if (document.title !== title) document.title = title
  const spoken = needs.map(({ text }) => text).join('. ')
  if (isOther) events.say(`${headline}. ${spoken || facts.join(', ')}`)
}

/** Shows what needs attention, each with the time since when. */
function showNeeds(needs: readonly Need[]): void {
  const texts = needs.map(
    ({ text, since }) => [text, ` since ${formatMoment(since, now())}`] as const,
  )
  const list = byID('needs')
  if (list.textContent === texts.flat().join('')) return
  list.replaceChildren(
    ...texts.map(([text, since]) => make('li', '', text, make('span', 'since', since))),
  )
}

const labels: readonly (readonly [keyof Totals, string])[] = [
  ['rate', 'reports a second'],
  ['accepted', 'delivered'],
  ['deduplicated', 'copies dropped'],
  ['backfilled', 'backfilled'],
  ['outOfOrder', 'out of order'],
  ['gaps', 'gaps'],
  ['conflicts', 'conflicts'],
  ['errors', 'errors'],
  ['reconnects', 'reconnects'],
]
const bad: ReadonlySet<string> = new Set(['gaps', 'conflicts', 'errors'])

function showTotals(totals: Totals): void {
  const list = byID('totals')
  if (list.children.length === 0)
    for (const [, label] of labels) list.append(make('div', '', make('dt', '', label), make('dd')))
  for (const [index, [name]] of labels.entries()) {
    const value = (list.children[index] as HTMLElement).lastElementChild as HTMLElement
    setText(value, formatCount(totals[name]))
    setData(value, 'some', String(bad.has(name) && totals[name] > 0))
  }
  setText(byID('rate-now'), `now ${formatCount(totals.rate)}`)
}

function showLatency(latency: Latency): void {
  setText(byID('latency-now'), latencyChart.draw(latency))
}

function showLoad({ loopP99Ms, cpu, memoryBytes, readers }: Load): void {
  const memory = Math.round(memoryBytes / 1_000_000)
  const pages = readers === 1 ? '1 page' : `${readers} pages`
  const text = `The monitor itself: event loop ${loopP99Ms} ms late (99 %), ${Math.round(cpu * 100)} % of a core, ${memory} MB, ${pages}`
  setText(byID('load'), text)
}

/** Shows the page that the address names: that of a feed, or all feeds. */
function route(): void {
  const feed = wantedFeed()
  setData(document.body, 'view', feed === undefined ? 'all' : 'feed')
  if (feed !== undefined) byID('feed').focus()
  void readDetails()
}

let isReading = false

/** Asks for the details that are in view. They change with each call, so only one is under way. */
async function readDetails(): Promise<void> {
  if (isReading) return
  isReading = true
  const { current } = range
  const feed = wantedFeed()
  if (feed === undefined) {
    const rates = await ask<RateDetails>(`/rate?range=${current}`, token)
    if (rates !== undefined) setText(byID('rate-most'), rateChart.draw(rates))
  } else {
    const query = new URLSearchParams({ feed, range: current })
    const details = await ask<FeedDetails>(`/feed?${query}`, token)
    if (link === 'open') feedView.draw(details, feed, now())
  }
  isReading = false
  // The user has chosen something else meanwhile.
  if (current !== range.current || feed !== wantedFeed()) await readDetails()
}

const following = follow(token, {
  onMessage: take,
  onState(state, why) {
    link = state
    refusal = why
    showVerdict()
  },
})

byID('pause').addEventListener('click', () => {
  isPaused = !isPaused
  const button = byID('pause')
  button.ariaPressed = String(isPaused)
  setText(button, isPaused ? 'Resume' : 'Pause')
  setData(document.body, 'paused', String(isPaused))
  // The server sends everything again, including the changes during the pause.
  if (!isPaused) following.restart()
})
startTheme(() => {
  rateChart.redraw()
  latencyChart.redraw()
  feedView.redraw()
})
addEventListener('hashchange', route)
setInterval(() => {
  if (!isPaused) draw()
  if (link === 'lost') showVerdict()
  if (!isPaused && !document.hidden) void readDetails()
}, SLOW)
route()
