import uPlot from 'uplot'
import type { Latency, Sample } from '../messages.js'
import { byID, formatMs } from './dom.js'
import { colour } from './theme.js'

/** How many samples the chart of the rate shows: three minutes of them. */
const POINTS = 90

/** The two charts. */
export interface Charts {
  sample(sample: Sample): void
  latency(latency: Latency): void
  /** Redraws the charts in the colours of the theme. */
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
  padding: [8, 12, 0, 0],
}

/** Makes a chart that is as wide and high as its element. */
function place(id: string, options: Partial<uPlot.Options>, data: uPlot.AlignedData): uPlot {
  const element = byID(id)
  const size = () => ({ width: element.clientWidth, height: element.clientHeight })
  const chart = new uPlot({ ...shared, ...options, ...size() } as uPlot.Options, data, element)
  new ResizeObserver(() => chart.setSize(size())).observe(element)
  return chart
}

/** Makes the charts. */
export function createCharts(): Charts {
  const times: number[] = []
  const rates: number[] = []
  let bounds: readonly number[] = []

  const rate = place(
    'rate-chart',
    {
      scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.15)] } },
      axes: [axis({ space: 70, size: 28, values: (_, at) => at.map(clock) }), axis({ size: 44 })],
      series: [
        {},
        {
          stroke: () => colour('accent'),
          fill: () => colour('accent-soft'),
          width: 1.5,
          points: { show: false },
        },
      ],
    },
    [times, rates],
  )
  const bars = uPlot.paths.bars?.({ size: [0.82, 64], radius: 0.1 })
  const latency = place(
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
    sample(sample) {
      times.push(sample.at / 1000)
      rates.push(sample.rate)
      if (times.length > POINTS) {
        times.shift()
        rates.shift()
      }
      rate.setData([times, rates])
    },
    latency(shown) {
      bounds = shown.bounds
      latency.setData([shown.counts.map((_, index) => index), [...shown.counts]])
    },
    redraw() {
      rate.redraw(false)
      latency.redraw(false)
    },
  }
}

const clock = (seconds: number): string => new Date(seconds * 1000).toTimeString().slice(0, 8)

/** Formats the bound of a bar: `50 ms`, `2 s`, `1 min`. */
function shortMs(ms: number): string {
  if (ms >= 60_000) return `${ms / 60_000} min`
  return ms >= 1000 ? `${ms / 1000} s` : formatMs(ms).replace('.0', '')
}
