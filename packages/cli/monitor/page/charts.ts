import uPlot from 'uplot'
import type { FeedCandles, FeedDetails, Latency, RateDetails } from '../messages.js'
import type { Course } from '../series.js'
import { byID, formatCount, formatMs, formatTime } from './dom.js'
import { scaleOf } from './scale.js'
import { colour } from './theme.js'

/** A chart. `draw` returns what it shows, in words. */
interface Chart<Shown> {
  draw(shown: Shown): string
  /** Redraws the chart in the colours of the theme. */
  redraw(): void
}

const font = '11px system-ui, sans-serif'

function axis(more: uPlot.Axis): uPlot.Axis {
  return {
    font,
    stroke: () => colour('muted'),
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { show: false },
    ...more,
  }
}

const shared: Partial<uPlot.Options> = {
  cursor: { show: false },
  legend: { show: false },
  padding: [12, 28, 0, 0],
}

/** Makes a chart that is as wide and high as its element. */
function place(id: string, options: Partial<uPlot.Options>, data: uPlot.AlignedData): uPlot {
  const element = byID(id)
  const size = () => ({ width: element.clientWidth, height: element.clientHeight })
  const chart = new uPlot({ ...shared, ...options, ...size() } as uPlot.Options, data, element)
  new ResizeObserver(() => chart.setSize(size())).observe(element)
  return chart
}

/** How a chart of a course writes its values, and whether its scale cuts spikes. */
interface CourseStyle {
  readonly write: (value: number) => string
  readonly isCut: boolean
}

/**
 * Makes a chart over time: a line of the means, in a band from the least to the greatest value of
 * each bucket. What the scale cuts has a mark at the top. Where reports are missing, the line is
 * broken and the ground is coloured.
 */
function createCourse(id: string, { write, isCut }: CourseStyle) {
  let cut: readonly number[] = []
  let missing: readonly number[] = []
  let width = 1
  let top = 1
  const line = { points: { show: false } }
  const chart = place(
    id,
    {
      scales: {
        x: { time: true },
        y: isCut
          ? { range: () => [0, top * 1.05] }
          : { range: (_, low, high) => rangeAround(low, high) },
      },
      axes: [
        axis({ space: 70, size: 28, values: (_, at) => at.map(clock) }),
        axis({ size: isCut ? 48 : 78, values: (_, at) => at.map(write) }),
      ],
      series: [
        {},
        { ...line, stroke: 'transparent', width: 0 },
        { ...line, stroke: 'transparent', width: 0 },
        { ...line, stroke: () => colour('accent'), width: 1.5 },
      ],
      bands: [{ series: [1, 2], fill: () => colour('accent-soft') }],
      hooks: {
        drawClear: [
          ({ ctx, bbox, valToPos }) => {
            ctx.fillStyle = colour('gap')
            for (const at of missing) {
              const [from, to] = [at, at + width].map(each => valToPos(each, 'x', true))
              const wide = Math.max(3, (to as number) - (from as number))
              ctx.fillRect(from as number, bbox.top, wide, bbox.height)
            }
          },
        ],
        draw: [
          ({ ctx, bbox, valToPos }) => {
            const size = 5 * devicePixelRatio
            ctx.fillStyle = colour('warning')
            for (const at of cut) {
              const x = valToPos(at, 'x', true)
              ctx.beginPath()
              ctx.moveTo(x, bbox.top - size)
              ctx.lineTo(x + size, bbox.top + size / 2)
              ctx.lineTo(x - size, bbox.top + size / 2)
              ctx.fill()
            }
          },
        ],
      },
    },
    [[], [], [], []],
  )
  return {
    /** Shows a course, and returns its greatest value in words. */
    draw({ from, widthMs, low, high, mean }: Course, gaps: Course['mean'] = []): string {
      const times = high.map((_, index) => (from + index * widthMs) / 1000)
      const { top: most, most: peak } = scaleOf(high)
      top = isCut ? most : Number.POSITIVE_INFINITY
      width = widthMs / 1000
      cut = times.filter((_, index) => (high[index] ?? 0) > top)
      missing = times.filter((_, index) => gaps[index] != null)
      // uPlot joins the points beside an undefined value, and not those beside null.
      const shown = (values: Course['mean']): (number | null | undefined)[] =>
        values.map((value, index) =>
          value === null ? (gaps[index] == null ? undefined : null) : Math.min(value, top),
        )
      chart.setData([times, shown(high), shown(low), shown(mean)] as uPlot.AlignedData)
      if (peak === undefined) return 'none yet'
      const at = formatTime(from + peak.index * widthMs)
      const beyond = cut.length === 0 ? '' : ', above the chart (▲)'
      return `highest ${write(peak.value)} at ${at}${beyond}`
    },
    redraw: () => chart.redraw(false),
  }
}

/** A range that holds the values, with some room; around a single value, too. */
function rangeAround(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1]
  const room = (high - low) * 0.08 || Math.abs(high) * 0.0005 || 1
  return [low - room, high + room]
}

/** Makes the chart of the rate. */
export function createRateChart(): Chart<RateDetails> {
  const course = createCourse('rate-chart', { write: formatCount, isCut: true })
  return { draw: ({ rates }) => course.draw(rates), redraw: course.redraw }
}

/** The chart of candles has room for so many at least. */
const FEWEST = 30

/**
 * Makes a chart of candles. A candle that closes above its open is hollow, and one that misses a
 * range has a mark below.
 */
function createCandleChart(): Chart<FeedCandles> {
  let shown: FeedCandles = { interval: '1m', widthMs: 60_000, candles: [] }
  const none = { stroke: 'transparent', width: 0, points: { show: false } }
  const chart = place(
    'candle-chart',
    {
      scales: { x: { time: true }, y: { range: (_, low, high) => rangeAround(low, high) } },
      axes: [
        axis({ space: 70, size: 28, values: (_, at) => at.map(clock) }),
        axis({ size: 78, values: (_, at) => at.map(writePrice) }),
      ],
      series: [{}, none, none],
      hooks: { draw: [({ ctx, bbox, valToPos }) => drawCandles(shown, ctx, bbox, valToPos)] },
    },
    [[], [], []],
  )
  return {
    draw(given) {
      shown = given
      const { candles, interval, widthMs } = given
      const half = widthMs / 2
      const times = candles.map(({ start }) => (start + half) / 1000)
      // The scale ends half a candle beyond the last one, and has room for thirty at least.
      const [first, last] = [candles[0], candles.at(-1)]
      const end = (last?.start ?? 0) + widthMs
      const begin = Math.min(first?.start ?? 0, end - FEWEST * widthMs)
      const ends = first && last ? [begin / 1000, end / 1000] : []
      const all = ends.length === 0 ? [] : [ends[0] as number, ...times, ends[1] as number]
      const pad = (values: number[]) => (ends.length === 0 ? [] : [null, ...values, null])
      chart.setData([
        all,
        pad(candles.map(({ high }) => high)),
        pad(candles.map(({ low }) => low)),
      ] as uPlot.AlignedData)
      if (candles.length === 0) return 'none yet: the first ends with its minute'
      const lacking = candles.filter(({ complete }) => !complete).length
      const state = lacking === 0 ? 'all complete' : `${lacking} with missing reports (▲)`
      return `${candles.length} of ${interval}, ${state}`
    },
    redraw: () => chart.redraw(false),
  }
}

function drawCandles(
  { candles, widthMs }: FeedCandles,
  ctx: CanvasRenderingContext2D,
  bbox: uPlot.BBox,
  valToPos: uPlot['valToPos'],
): void {
  const at = (ms: number): number => valToPos(ms / 1000, 'x', true)
  const size = 5 * devicePixelRatio
  ctx.lineWidth = devicePixelRatio
  for (const { start, open, high, low, close, complete } of candles) {
    const middle = Math.round(at(start + widthMs / 2))
    const wide = Math.max(3, (at(start + widthMs) - at(start)) * 0.7)
    const [top, bottom] = [Math.max(open, close), Math.min(open, close)].map(price =>
      valToPos(price, 'y', true),
    ) as [number, number]
    const isRising = close >= open
    ctx.strokeStyle = colour(isRising ? 'good' : 'bad')
    ctx.fillStyle = ctx.strokeStyle
    ctx.beginPath()
    ctx.moveTo(middle, valToPos(high, 'y', true))
    ctx.lineTo(middle, top)
    ctx.moveTo(middle, bottom)
    ctx.lineTo(middle, valToPos(low, 'y', true))
    ctx.stroke()
    const box = [middle - wide / 2, top, wide, Math.max(1, bottom - top)] as const
    if (isRising) ctx.strokeRect(...box)
    else ctx.fillRect(...box)
    if (complete) continue
    const y = bbox.top + bbox.height
    ctx.fillStyle = colour('warning')
    ctx.beginPath()
    ctx.moveTo(middle, y - 2 * size)
    ctx.lineTo(middle + size, y)
    ctx.lineTo(middle - size, y)
    ctx.fill()
  }
}

/** Makes the charts of a feed's prices, candles and ages. `draw` returns the words for each. */
export function createFeedCharts(): {
  draw(details: FeedDetails): {
    readonly prices: string
    readonly candles: string
    readonly ages: string
  }
  redraw(): void
} {
  const prices = createCourse('price-chart', { write: writePrice, isCut: false })
  const ages = createCourse('ages-chart', { write: formatMs, isCut: true })
  const candles = createCandleChart()
  return {
    draw: details => ({
      candles: candles.draw(details.candles),
      prices: prices.draw(details.prices, details.gapCourse.mean),
      ages: ages.draw(details.ages),
    }),
    redraw() {
      prices.redraw()
      candles.redraw()
      ages.redraw()
    },
  }
}

const prices = new Intl.NumberFormat('en', { maximumSignificantDigits: 8 })
const writePrice = (value: number): string => prices.format(value)

/** Makes the chart of ages at delivery. */
export function createLatencyChart(): Chart<Latency> {
  let bounds: readonly number[] = []
  const bars = uPlot.paths.bars?.({ size: [0.82, 64], radius: 0.1 })
  const chart = place(
    'latency-chart',
    {
      scales: {
        x: { time: false, range: (_, __, max) => [-0.6, (max ?? 0) + 0.6] },
        y: { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] },
      },
      axes: [
        axis({
          size: 28,
          grid: { show: false },
          splits: () => bounds.map((_, index) => index).filter(index => index % 3 === 1),
          values: (_, at) => at.map(index => shortMs(bounds[index] as number)),
        }),
        axis({ size: 44 }),
      ],
      series: [
        {},
        {
          fill: () => colour('accent'),
          stroke: () => colour('accent'),
          width: 0,
          points: { show: false },
          ...(bars === undefined ? {} : { paths: bars }),
        },
      ],
    },
    [[], []],
  )
  return {
    draw({ bounds: given, counts, p50, p95, p99 }) {
      bounds = given
      chart.setData([counts.map((_, index) => index), [...counts]])
      if (p50 === undefined || p95 === undefined || p99 === undefined) return 'none yet'
      return `p50 ${formatMs(p50)} · p95 ${formatMs(p95)} · p99 ${formatMs(p99)}`
    },
    redraw: () => chart.redraw(false),
  }
}

const clock = (seconds: number): string => new Date(seconds * 1000).toTimeString().slice(0, 8)

/** Formats the bound of a bar: `50 ms`, `2 s`, `1 min`. */
function shortMs(ms: number): string {
  if (ms >= 60_000) return `${ms / 60_000} min`
  return ms >= 1000 ? `${ms / 1000} s` : formatMs(ms).replace('.0', '')
}
