import type { FeedName, FeedRow, MarketRow, Sample } from '../messages.js'
import { byID, formatAge, formatCount, formatMoment, make, setData, setText } from './dom.js'
import { addressOf, tradableOf } from './feed-view.js'
import { makeSortable } from './sorting.js'

/** How many points a trend line has: the samples of three minutes. */
const POINTS = 90
/** After this many drawings, every row out of view has been drawn once. */
const ROUNDS = 8
/** Milliseconds between two sortings of a table whose values change. */
const ORDER_INTERVAL = 1000
const WIDTH = 102
const HEIGHT = 20
const SVG = 'http://www.w3.org/2000/svg'

/** The table of feeds. */
export interface FeedsView {
  name(row: FeedName): void
  update(row: FeedRow): void
  /** Shows whether a feed may be traded, in a column that is hidden before the first call. */
  judge(row: MarketRow): void
  sample(sample: Sample): void
  /**
   * Draws the rows in view, and some of the rows out of view. After a few calls, every row has been
   * drawn.
   */
  draw(now: number): void
}

interface Shown {
  readonly line: HTMLTableRowElement
  readonly feed: HTMLAnchorElement
  readonly whole: HTMLElement
  readonly fraction: HTMLElement
  readonly trend: SVGPolylineElement
  readonly age: HTMLElement
  readonly reports: HTMLElement
  readonly gaps: HTMLElement
  readonly state: HTMLElement
  readonly market: HTMLElement
  readonly why: HTMLElement
  readonly prices: (number | null)[]
  name: string
  search: string
  row: FeedRow
  verdict: MarketRow | undefined
  isInView: boolean
  isOld: boolean
  hasOldTrend: boolean
}

/** Makes the table. */
export function createFeedsView(): FeedsView {
  const body = byID<HTMLTableSectionElement>('feed-rows')
  const filter = byID<HTMLInputElement>('filter')
  const attention = byID<HTMLInputElement>('attention')
  const feeds: Shown[] = []
  let round = 0
  const ofLine = new WeakMap<Element, Shown>()
  const inView = new IntersectionObserver(
    entries => {
      for (const { target, isIntersecting } of entries) {
        const shown = ofLine.get(target)
        if (shown !== undefined) shown.isInView = isIntersecting
      }
    },
    { root: byID('feeds-scroll'), rootMargin: '100px' },
  )

  function find(index: number): Shown {
    let shown = feeds[index]
    if (shown === undefined) {
      shown = makeRow(index)
      feeds[index] = shown
      ofLine.set(shown.line, shown)
      body.append(shown.line)
      inView.observe(shown.line)
    }
    return shown
  }

  /** Hides the rows that do not match the filter. */
  function select(): void {
    const wanted = filter.value.trim().toLowerCase()
    let count = 0
    for (const { line, search, row } of feeds) {
      const isWanted = search.includes(wanted) && !(attention.checked && row.state === 'live')
      if (line.hidden === isWanted) line.hidden = !isWanted
      if (isWanted) count++
    }
    const none = byID('no-feeds')
    none.hidden = count > 0 || feeds.length === 0
    setText(none, attention.checked && wanted === '' ? 'All feeds are live.' : 'No feed matches.')
  }

  const sorting = makeSortable<Shown>(
    'feed-head',
    [
      ({ name }) => name,
      ({ row }) => (row.price === undefined ? undefined : Number(row.price)),
      changeOf,
      // The youngest first means the latest arrival.
      ({ row }) => (row.seenAt === undefined ? undefined : -row.seenAt),
      ({ row }) => row.reports,
      ({ row }) => row.gaps,
      ({ row }) => row.state,
      // What can't be traded comes first.
      ({ verdict }) => verdict && Number(verdict.tradable) * 2 - Number(verdict.caution),
      ({ verdict }) => verdict?.reason,
    ],
    order,
  )
  let orderedAt = 0

  /** Puts the rows in the chosen order. Moving no row costs no layout. */
  function order(): void {
    orderedAt = performance.now()
    const lines = sorting.sort(feeds).map(({ line }) => line)
    if (lines.some((line, index) => body.children[index] !== line)) body.append(...lines)
  }

  filter.addEventListener('input', select)
  attention.addEventListener('change', select)

  return {
    name({ index, feedID, name, field }) {
      const shown = find(index)
      shown.name = name
      shown.search = `${name} ${feedID}`.toLowerCase()
      shown.feed.href = addressOf(feedID)
      setText(shown.feed, name)
      shown.feed.title = `${feedID}${field === '' ? '' : `, ${field}`}`
    },
    update(row) {
      const shown = find(row.index)
      const isOther = shown.row.state !== row.state
      shown.row = row
      shown.isOld = true
      if (isOther) setData(shown.line, 'state', row.state)
      if (isOther && attention.checked) select()
    },
    judge(row) {
      const shown = find(row.index)
      setData(byID('feeds'), 'market', 'true')
      setData(shown.line, 'tradable', tradableOf(row).replace(' ', '-'))
      shown.verdict = row
      shown.isOld = true
    },
    sample({ prices }) {
      for (const [index, price] of prices.entries()) {
        const shown = find(index)
        shown.prices.push(price)
        if (shown.prices.length > POINTS) shown.prices.shift()
        shown.hasOldTrend = true
      }
    },
    draw(now) {
      if (sorting.isChosen && performance.now() - orderedAt > ORDER_INTERVAL) order()
      round = (round + 1) % ROUNDS
      for (const [index, shown] of feeds.entries()) {
        if (!shown.isInView && index % ROUNDS !== round) continue
        if (shown.isOld) drawRow(shown)
        if (shown.hasOldTrend && shown.isInView) drawTrend(shown)
        drawWhy(shown, now)
        const { seenAt } = shown.row
        setText(shown.age, seenAt === undefined ? '–' : formatAge(Math.max(0, now - seenAt)))
      }
    },
  }
}

function makeRow(index: number): Shown {
  const feed = make('a')
  const head = make('th', 'c-name', feed)
  head.scope = 'row'
  const whole = make('span', 'whole')
  const fraction = make('span', 'fraction')
  const drawing = document.createElementNS(SVG, 'svg')
  drawing.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`)
  drawing.setAttribute('aria-hidden', 'true')
  const trend = document.createElementNS(SVG, 'polyline') as SVGPolylineElement
  drawing.append(trend)
  const trendCell = make('td', 'c-trend')
  trendCell.append(drawing)
  const age = make('td', 'c-age number')
  const reports = make('td', 'c-reports number')
  const gaps = make('td', 'c-gaps number')
  const state = make('span')
  const stateCell = make('td', 'c-state', makeShape(), state)
  const market = make('span')
  const marketCell = make('td', 'c-market', makeShape(), market)
  const why = make('td', 'c-why')
  const price = make('td', 'c-price', whole, fraction)
  const values = [price, trendCell, age, reports, gaps, stateCell, marketCell, why]
  const line = make('tr', '', head, ...values)
  const row: FeedRow = { index, state: 'waiting', reports: 0, gaps: 0 }
  const cells = { line, feed, whole, fraction, trend, age, reports, gaps, state, market, why }
  const flags = { isInView: false, isOld: true, hasOldTrend: false }
  return { ...cells, ...flags, prices: [], name: '', search: '', row, verdict: undefined }
}

/** The change of a feed's price over the samples, as a share of it. */
function changeOf({ prices }: Shown): number | undefined {
  const first = prices.find(price => price !== null)
  const last = prices.at(-1)
  return first == null || last == null || first === 0 ? undefined : (last - first) / Math.abs(first)
}

function makeShape(): HTMLElement {
  const shape = make('i', 'shape')
  shape.ariaHidden = 'true'
  return shape
}

function drawRow(shown: Shown): void {
  const { state, price, reports, gaps } = shown.row
  shown.isOld = false
  const [whole = '', fraction] = (price ?? '–').split('.')
  setText(shown.whole, whole.replace(/\B(?=(\d{3})+$)/g, ','))
  setText(shown.fraction, fraction === undefined ? '' : `.${fraction}`)
  setText(shown.reports, formatCount(reports))
  setText(shown.gaps, formatCount(gaps))
  setData(shown.gaps, 'some', String(gaps > 0))
  setText(shown.state, state)
  if (shown.verdict !== undefined) setText(shown.market, tradableOf(shown.verdict))
}

/** Draws why a feed may not be traded, or only with care, and since when. */
function drawWhy({ why, verdict }: Shown, now: number): void {
  if (verdict === undefined) return
  const { tradable, caution, text, since } = verdict
  const isPlain = tradable && !caution
  setText(why, isPlain ? '' : `${text}, since ${formatMoment(since, now)}`)
}

/**
 * Draws the trend line, with the newest sample at the right. If the price does not change, the line
 * is in the middle.
 */
function drawTrend(shown: Shown): void {
  const { prices, trend } = shown
  shown.hasOldTrend = false
  const known = prices.filter(price => price !== null)
  const low = Math.min(...known)
  const span = Math.max(...known) - low
  const points = prices.flatMap((price, index) => {
    if (price === null) return []
    const x = WIDTH - ((prices.length - 1 - index) * WIDTH) / (POINTS - 1)
    const y = span === 0 ? HEIGHT / 2 : HEIGHT - 2 - ((price - low) / span) * (HEIGHT - 4)
    return [`${x.toFixed(1)},${y.toFixed(1)}`]
  })
  trend.setAttribute('points', points.join(' '))
}
