// What plugins above the default stack cost: frames into the stack, with and without them, alternately and without a network
// between. The handler reads a price on each side, so all decode. Half of the feeds are of version 3, half of version 11.
import { feedIDs, makeMessage } from './frames.mjs'
import { fromSource } from './from-source.mjs'
import { openStack } from './open-stack.mjs'
import { spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const {
  candles,
  createClient,
  defaultPreset,
  encodeBlob,
  encodeFullReport,
  marketGuard,
  reportSchema,
} = await fromSource(
  'client/client',
  'presets/default',
  'packages/engine/encode',
  'plugins/market-guard/index',
  'plugins/candles/index',
)

const rounds = 15
const warmup = 3
const lapsPerRound = 40
/** Laps before those that count. */
const warmLaps = 20
const ticks = 16
/** So many frames go into one side, and then into the next: whatever else the machine does hits both, or few of them. */
const SLICE = 80

const e18 = 10n ** 18n
const prefixes = feedIDs(40).map((id, index) => `00${index % 2 === 0 ? '3' : 'b'}${id.slice(6)}`)
/** Feeds in milliseconds: the reports of a whole round lie within a second, so none is stale or dated in the future. */
const inMilliseconds = prefixes.map(rest => `0x1${rest}`)
/** Feeds in seconds: the reports of a round are those of 16 minutes. */
const inSeconds = prefixes.map(rest => `0x0${rest}`)
const hours = Object.fromEntries(inMilliseconds.map(id => [id, '24/5']))
const barsOf = (...intervals) => candles({ intervals, warmUp: 0 })

/**
 * The plugins of each side, before the default stack: the feeds of a set, and the most that a plugin may cost, in per cent of the
 * report path.
 */
const sets = [
  {
    ids: inMilliseconds,
    most: 3,
    sides: {
      none: () => [],
      marketGuard: () => [marketGuard({ hours, catalogue: false })],
      'marketGuard and `drop: true`': () => [marketGuard({ hours, catalogue: false, drop: true })],
    },
  },
  {
    ids: inSeconds,
    most: 5,
    sides: {
      none: () => [],
      'candles of 1m, 5m and 1h': () => [barsOf('1m', '5m', '1h')],
      'candles of 1s, 1m, 5m and 1h': () => [barsOf('1s', '1m', '5m', '1h')],
    },
  },
]

/** Prices walk by less than a tenth of a per mille, as those of the service do. */
function valuesOf(version, time, index) {
  const mid = 3_850n * e18 + BigInt((index * 7919) % 100_000) * 10n ** 12n
  const quote = { bid: mid - e18 / 10n, ask: mid + e18 / 10n }
  if (version === 3) return { price: mid, ...quote }
  return {
    ...{ mid, ...quote, bidVolume: 300n * e18, askVolume: 280n * e18, lastTradedPrice: mid },
    ...{ lastSeenTimestampNs: BigInt(time - 200) * 1_000_000n, marketStatus: 2 },
  }
}

function makeFrame(id, time, index) {
  const version = Number.parseInt(id.slice(3, 6), 16)
  const resolution = id.startsWith('0x1') ? 'ms' : 's'
  const times = { validFromTimestamp: time, observationsTimestamp: time }
  const head = { feedId: id, ...times, expiresAt: time + 86_400_000, nativeFee: 1n, linkFee: 1n }
  const values = { ...head, ...valuesOf(version, time, index) }
  const word = 'ab'.repeat(32)
  const fullReport = encodeFullReport({
    context: [word, word, word],
    blob: encodeBlob(reportSchema(version, resolution), values),
    ...{ rs: [word, word], ss: [word, word], vs: '00'.repeat(32) },
  })
  return makeMessage({ feedID: id, fullReport, ...times })
}

/** All frames of a round: a lap has a report of each feed for each of its `ticks` units of time. */
function makeLaps(ids, start) {
  let index = 0
  return Array.from({ length: warmLaps + lapsPerRound }, (_, lap) =>
    Array.from({ length: ticks }, (_, tick) =>
      ids.map(id => makeFrame(id, start + lap * ticks + tick, index++)),
    ).flat(),
  )
}

/** Milliseconds of each side for each slice of the messages. */
function feedAlternately(opened, laps) {
  const names = Object.keys(opened)
  const times = []
  let slices = 0
  for (const [number, messages] of laps.entries()) {
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
      if (number >= warmLaps) times.push(time)
    }
  }
  return times
}

async function compare({ ids, most, sides }) {
  const names = Object.keys(sides)
  const unit = ids === inSeconds ? 1000 : 1
  let total = 0n
  const listener = ({ decoded }) => {
    total += decoded.bid
  }
  const results = []
  for (let round = -warmup; round < rounds; round++) {
    const past = Math.max(2000, (warmLaps + lapsPerRound) * ticks * unit)
    const laps = makeLaps(ids, Math.floor((Date.now() - past) / unit))
    const opened = {}
    const plugins = []
    for (const name of names) {
      const own = sides[name]()
      plugins.push(...own)
      const stack = [...own, ...defaultPreset({ apiKey: 'key', userSecret: 'secret' })]
      opened[name] = await openStack(createClient, { plugins: stack }, ids, listener)
    }
    const times = feedAlternately(opened, laps)
    const expected = laps.length * ticks * ids.length
    for (const { accepted } of Object.values(opened))
      if (accepted() !== expected || total === 0n)
        throw new Error(`${accepted()} reports came, not ${expected}`)
    for (const plugin of plugins) for (const id of ids) check(plugin, id)
    for (const { close } of Object.values(opened)) await close()
    if (round < 0) continue
    const micros = name => (1000 * spread(times.map(time => time[name])).median) / SLICE
    // A candle of a minute ends in a few slices only, so the mean counts here.
    const sum = name => times.reduce((total, time) => total + time[name], 0)
    const more = name => 100 * (sum(name) / sum('none') - 1)
    const slice = name => spread(times.map(time => 100 * (time[name] / time.none - 1))).median
    results.push(
      Object.fromEntries(
        names.map(name => [
          name,
          { micros: micros(name), more: ids === inSeconds ? more(name) : slice(name) },
        ]),
      ),
    )
  }

  const figures = (name, what) => spread(results.map(result => result[name][what]))
  printTable(
    'µs from frame to listener, decoded',
    ['median', 'least to most'],
    names.map(name => {
      const { median, min, max } = figures(name, 'micros')
      return [name, short(median), `${short(min)} to ${short(max)}`]
    }),
  )
  return names.slice(1).map(name => ({
    work: `time from frame to handler with ${name}, compared with the default stack`,
    ...atMost(most, figures(name, 'more'), ' % more'),
    detail: `with the plugin ${short(figures(name, 'micros').median)} µs; without the plugin ${short(figures('none', 'micros').median)} µs`,
  }))
}

function check(plugin, id) {
  if (plugin.name === 'candles') {
    if (plugin.of(id, '5m')?.complete !== true) throw new Error(`${id} has no candle of 5m`)
  } else if (plugin.of(id).reason !== 'open') throw new Error(`${id} is ${plugin.of(id).text}`)
}

export default async function bench() {
  const rows = []
  for (const set of sets) rows.push(...(await compare(set)))
  return rows
}
