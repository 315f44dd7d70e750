// What telemetry costs: frames into the default stack, with and without a plugin that exports metrics, alternately and without a
// network between. The SDK of OpenTelemetry and prom-client are the real ones, and are asked for all values now and then.
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { Registry } from 'prom-client'
import { createLap, feedIDs, START } from './frames.mjs'
import { fromSource } from './from-source.mjs'
import { openStack } from './open-stack.mjs'
import { spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const { createClient, defaultPreset, opentelemetry, prometheus } = await fromSource(
  'client/client',
  'presets/default',
  'plugins/opentelemetry/index',
  'plugins/prometheus',
)

const rounds = 11
const warmup = 3
const lapsPerRound = 40
/** Laps before those that count: a plugin has found by then how many reports to measure. */
const warmLaps = 10
/** So many frames go into one side, and then into the next: whatever else the machine does hits all, or few of them. */
const SLICE = 80

const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 })
const meterProvider = new MeterProvider({ readers: [reader] })
const register = new Registry()

/** The plugins of each side, before those of the default stack. */
const sides = {
  none: () => [],
  opentelemetry: () => [opentelemetry({ meterProvider })],
  prometheus: () => [prometheus({ register })],
  'prometheus with feed ids': () => [prometheus({ register, feedIDs: true })],
}
const names = Object.keys(sides)

export default async function bench() {
  const ids = feedIDs(40)
  const lap = createLap(ids)
  const messages = Array.from({ length: lap.frames }, (_, index) =>
    lap.buffer.subarray(index * lap.frameLength + 4, (index + 1) * lap.frameLength),
  )
  let last
  const listener = report => {
    last = report.fullReport
  }

  /** Milliseconds of each side for each slice of the messages. */
  function feedAlternately(opened) {
    const times = []
    let slices = 0
    for (let number = -warmLaps; number < lapsPerRound; number++) {
      lap.setTime(START + (warmLaps + number) * lap.ticks)
      for (let from = 0; from < messages.length; from += SLICE) {
        const time = {}
        for (let place = 0; place < names.length; place++) {
          const name = names[(place + slices) % names.length]
          const { receive } = opened[name]
          const started = performance.now()
          for (let at = from; at < from + SLICE; at++) receive(messages[at])
          time[name] = performance.now() - started
        }
        slices++
        if (number >= 0) times.push(time)
      }
    }
    return times
  }

  const results = []
  for (let round = -warmup; round < rounds; round++) {
    const opened = {}
    for (const name of names) {
      const plugins = [...sides[name](), ...defaultPreset({ apiKey: 'key', userSecret: 'secret' })]
      opened[name] = await openStack(createClient, { plugins }, ids, listener)
    }
    const times = feedAlternately(opened)
    const expected = (warmLaps + lapsPerRound) * lap.frames
    for (const { accepted } of Object.values(opened))
      if (accepted() !== expected || last === undefined)
        throw new Error(`${accepted()} reports came, not ${expected}`)
    await Promise.all([reader.forceFlush(), register.metrics()])
    for (const { close } of Object.values(opened)) await close()
    if (round < 0) continue
    const micros = name => (1000 * spread(times.map(time => time[name])).median) / SLICE
    const more = name => spread(times.map(time => 100 * (time[name] / time.none - 1))).median
    results.push(
      Object.fromEntries(names.map(name => [name, { micros: micros(name), more: more(name) }])),
    )
  }
  await meterProvider.shutdown()

  const figures = (name, what) => spread(results.map(result => result[name][what]))
  printTable(
    'µs from frame to listener',
    ['median', 'least to most'],
    names.map(name => {
      const { median, min, max } = figures(name, 'micros')
      return [name, short(median), `${short(min)} to ${short(max)}`]
    }),
  )
  return names.slice(1).map(name => ({
    work: `time from frame to handler with telemetry (${name}), compared with no telemetry`,
    ...atMost(
      name === 'prometheus with feed ids' ? undefined : 5,
      figures(name, 'more'),
      ' % more',
    ),
    detail: `with telemetry ${short(figures(name, 'micros').median)} µs; without telemetry ${short(figures('none', 'micros').median)} µs`,
  }))
}
