// What the chain of plugins costs: frames into the default stack, and into one function that does the same, in turns and
// without a network between.
import { createLap, feedIDs, START } from './frames.mjs'
import { openStack } from './open-stack.mjs'
import { spread } from './rounds.mjs'
import { createClient, createStraight } from './straight.mjs'
import { atMost, printTable, short } from './table.mjs'

const rounds = 15
const warmup = 3
const lapsPerRound = 40
/** So many frames go into one side, and then into the other: whatever else the machine does hits both, or few of them. */
const SLICE = 80

const credentials = { apiKey: 'key', userSecret: 'secret' }

function openStraight(ids, listener) {
  const { receive, counters } = createStraight(ids, 'ws://localhost', listener)
  return { receive, accepted: () => counters.accepted, close() {} }
}

export default async function bench() {
  const ids = feedIDs(40)
  const lap = createLap(ids)
  const messages = Array.from({ length: lap.frames }, (_, index) =>
    lap.buffer.subarray(index * lap.frameLength + 4, (index + 1) * lap.frameLength),
  )
  const slices = Array.from({ length: messages.length / SLICE }, (_, index) =>
    messages.slice(index * SLICE, (index + 1) * SLICE),
  )
  let last
  const listener = report => {
    last = report.fullReport
  }

  /** Milliseconds a side takes for some of the messages. */
  function feed({ receive }, slice) {
    const started = performance.now()
    for (const message of slice) receive(message)
    return performance.now() - started
  }

  /** Milliseconds of both sides for each slice. */
  function feedAlternately(sides) {
    const times = []
    for (let number = 0; number < lapsPerRound; number++) {
      lap.setTime(START + number * lap.ticks)
      for (const [index, slice] of slices.entries()) {
        const order = index % 2 === 0 ? ['stack', 'straight'] : ['straight', 'stack']
        const time = {}
        for (const side of order) time[side] = feed(sides[side], slice)
        times.push(time)
      }
    }
    return times
  }

  const results = []
  for (let round = -warmup; round < rounds; round++) {
    const sides = {
      stack: await openStack(createClient, credentials, ids, listener),
      straight: openStraight(ids, listener),
    }
    const times = feedAlternately(sides)
    const expected = lapsPerRound * lap.frames
    for (const { accepted } of Object.values(sides))
      if (accepted() !== expected || last === undefined)
        throw new Error(`${accepted()} reports came, not ${expected}`)
    await sides.stack.close()
    if (round < 0) continue
    const micros = side => (1000 * spread(times.map(time => time[side])).median) / SLICE
    const more = spread(times.map(({ stack, straight }) => 100 * (stack / straight - 1))).median
    results.push({ stack: micros('stack'), straight: micros('straight'), more })
  }

  const micros = side => spread(results.map(result => result[side]))
  const cells = ({ median, min, max }) => [short(median), `${short(min)} to ${short(max)}`]
  printTable(
    'µs from frame to listener',
    ['median', 'least to most'],
    [
      ['default stack', ...cells(micros('stack'))],
      ['one function', ...cells(micros('straight'))],
    ],
  )
  const more = spread(results.map(result => result.more))
  return [
    {
      work: 'time from frame to handler with the default stack of plugins, compared with one function that does the same work',
      ...atMost(10, more, ' % more'),
      detail: `the stack ${short(micros('stack').median)} µs; one function ${short(micros('straight').median)} µs`,
    },
  ]
}
