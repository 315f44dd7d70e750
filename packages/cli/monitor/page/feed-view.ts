import type { FeedConflict, FeedDetails, FeedGap, FeedReport, MarketRow } from '../messages.js'
import { createFeedCharts } from './charts.js'
import {
  byID,
  formatAge,
  formatCount,
  formatExactTime,
  formatMoment,
  formatMs,
  make,
  setData,
  setText,
  zoneOf,
} from './dom.js'
import { rangeText } from './range.js'
import { makeSortable } from './sorting.js'

/** The page of one feed. */
export interface FeedView {
  draw(details: FeedDetails | undefined, wanted: string, now: number): void
  redraw(): void
}

const PATH = '#/feed/'

/** The feed that the address names: its id or its name. Undefined if the address names none. */
export function wantedFeed(): string | undefined {
  if (!location.hash.startsWith(PATH)) return undefined
  try {
    return decodeURIComponent(location.hash.slice(PATH.length))
  } catch {
    return location.hash.slice(PATH.length)
  }
}

/** The address of a feed's page. */
export const addressOf = (feed: string): string => `${PATH}${encodeURIComponent(feed)}`

/** Whether a feed may be traded, in a word. */
export const tradableOf = ({ tradable, caution }: MarketRow): string =>
  tradable ? (caution ? 'with care' : 'yes') : 'no'

/** Makes the page of a feed. */
export function createFeedView(): FeedView {
  const charts = createFeedCharts()
  let reports: readonly FeedReport[] = []
  const sorting = makeSortable<FeedReport>(
    'report-head',
    [
      ({ observedAt }) => observedAt,
      ({ price }) => Number(price),
      ({ bid }) => (bid === undefined ? undefined : Number(bid)),
      ({ ask }) => (ask === undefined ? undefined : Number(ask)),
      ageOf,
      ({ origin }) => origin,
      ({ source }) => source,
    ],
    drawReports,
  )

  function drawReports(): void {
    fill(
      'report-rows',
      sorting.sort(reports).map(report => {
        const { observedAt, price = '', bid = '', ask = '', origin, source } = report
        const time = formatExactTime(observedAt)
        const age = formatMs(Math.max(0, ageOf(report)))
        return [time, price, bid, ask, age, origin, source]
      }),
    )
  }

  return {
    draw(details, wanted, now) {
      byID('feed-parts').hidden = details === undefined
      byID('no-feed').hidden = details !== undefined
      if (details === undefined) return setText(byID('feed-title'), wanted)
      const { name, row, market, quote, changes, range } = details
      const { prices, gapCourse, gaps, conflicts } = details
      setText(byID('feed-title'), name.name)
      setText(byID('feed-id'), name.feedID)
      const age = row.seenAt === undefined ? '–' : formatAge(Math.max(0, now - row.seenAt))
      const { price, bid, ask, spread, spreadBps } = quote ?? {}
      const bps = spreadBps === undefined ? '' : ` · ${spreadBps.toFixed(2)} bps`
      list('feed-facts', [
        [name.field || 'price', price ?? '–'],
        ['bid', bid ?? '–'],
        ['ask', ask ?? '–'],
        ['spread', spread === undefined ? '–' : `${spread}${bps}`],
        ['state', row.state],
        ['last report', age === '–' ? age : `${age} ago`],
        ['reports', formatCount(row.reports)],
        ['gaps', formatCount(row.gaps)],
        ...(market === undefined ? [] : marketFacts(market, now)),
      ])
      setData(byID('feed-facts'), 'state', row.state)
      fill(
        'change-rows',
        changes.map(({ range: each, since, by, bps }) => [
          rangeText(each),
          signed(by),
          bps === undefined ? '–' : `${signed(bps.toFixed(2))} bps`,
          formatMoment(since, now),
        ]),
      )
      const words = charts.draw(details)
      const missing = gapCourse.mean.filter(value => value !== null).length
      const lost = missing === 0 ? 'no gaps' : 'gaps are coloured'
      setText(
        byID('price-now'),
        `${rangeText(range)} to ${formatMoment(endOf(prices), now)}, ${lost}`,
      )
      setText(byID('candles-now'), words.candles)
      setText(byID('ages-now'), words.ages)
      reports = details.reports
      drawReports()
      fill('gap-rows', gaps.map(writeGap))
      fill('conflict-rows', conflicts.map(writeConflict))
      for (const zone of document.querySelectorAll('.zone'))
        setText(zone, `times in ${zoneOf(now)}`)
    },
    redraw: charts.redraw,
  }
}

const endOf = ({ from, widthMs, mean }: FeedDetails['prices']): number =>
  from + widthMs * mean.length

const ageOf = ({ arrivedAt, observedAt }: FeedReport): number => arrivedAt - observedAt

const signed = (text: string): string => (/^-|^0(\.0*)?$/.test(text) ? text : `+${text}`)

function marketFacts(market: MarketRow, now: number): (readonly [string, string])[] {
  return [
    ['tradable', tradableOf(market)],
    ['market', market.reason],
    ['market since', formatMoment(market.since, now)],
    ['reason', market.text],
  ]
}

function writeGap({ at, from, to, cause }: FeedGap): readonly string[] {
  return [formatExactTime(from), formatExactTime(to), cause, formatExactTime(at)]
}

function writeConflict({ observedAt, first, other, at }: FeedConflict): readonly string[] {
  const [one, two] = [first, other].map(({ origin, price = '?' }) => `${origin}: ${price}`)
  return [formatExactTime(observedAt), one as string, two as string, formatExactTime(at)]
}

/** Writes the terms of a list and their texts. */
function list(id: string, rows: readonly (readonly [string, string])[]): void {
  const place = byID(id)
  while (place.children.length < rows.length) place.append(make('div', '', make('dt'), make('dd')))
  for (const [index, texts] of rows.entries())
    for (const [part, text] of texts.entries())
      setText(place.children[index]?.children[part] as Element, text)
}

/** Writes the rows of a table. The first cell of a row is its head. */
function fill(id: string, rows: readonly (readonly string[])[]): void {
  const body = byID(id)
  const heads = [...(body.previousElementSibling?.querySelectorAll('th') ?? [])]
  const empty = body.parentElement?.nextElementSibling as HTMLElement
  empty.hidden = rows.length > 0
  while (body.children.length > rows.length) body.lastElementChild?.remove()
  for (const [index, texts] of rows.entries()) {
    let line = body.children[index]
    if (line === undefined) {
      line = make('tr', '', ...texts.map((_, at) => makeCell(at, heads[at]?.className ?? '')))
      body.append(line)
    }
    for (const [at, text] of texts.entries()) setText(line.children[at] as Element, text)
  }
}

function makeCell(at: number, className: string): HTMLTableCellElement {
  if (at > 0) return make('td', className)
  const head = make('th', className)
  head.scope = 'row'
  return head
}
