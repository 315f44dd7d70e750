import type { Plugin } from '../../client/contract/plugin.js'
import { Findings } from '../faults.js'
import { type SampleReport, sampleReport } from '../reports.js'
import type { SampleWire } from '../service.js'
import { startVirtualTime } from '../virtual-time.js'
import { World, type WorldSettings } from './world.js'

const COUNT = 10_000
const ROUNDS = 7
const feedID = `0x1003${'c0'.repeat(30)}`

/**
 * Measures how many microseconds a plugin adds to the way of a report. It takes the least of
 * several rounds, since other work on the machine only adds to a time.
 */
export async function measureCost(
  make: (wire: SampleWire) => Plugin,
  name: string,
  settings: WorldSettings,
): Promise<number> {
  const clock = performance
  let without = Number.POSITIVE_INFINITY
  let withPlugin = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    without = Math.min(without, await measure(() => ({ name }), settings, clock))
    withPlugin = Math.min(withPlugin, await measure(make, settings, clock))
  }
  return Math.max(0, (1000 * (withPlugin - without)) / COUNT)
}

let samples: readonly SampleReport[] | undefined

/** Sends reports over a stream, and returns the milliseconds that they took. */
async function measure(
  make: (wire: SampleWire) => Plugin,
  settings: WorldSettings,
  clock: { now(): number },
): Promise<number> {
  const time = startVirtualTime()
  try {
    const world = new World(time, new Findings(''), settings)
    const member = world.join(make(world.service.wire))
    const stream = world.open(member, [feedID])
    stream.on('report', () => undefined)
    world.begin('connect', stream.connect())
    await world.settle()
    samples ??= Array.from({ length: COUNT }, (_, index) =>
      sampleReport({ feedID, observationsTimestamp: 1000 * world.start - COUNT + index }),
    )
    const start = clock.now()
    for (const report of samples) world.service.send(report)
    const took = clock.now() - start
    await world.close()
    return took
  } finally {
    time.end()
  }
}
