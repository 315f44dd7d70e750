import type { Plugin } from '../../client/contract/plugin.js'
import { Findings } from '../faults.js'
import { type SampleReport, sampleReport } from '../reports.js'
import type { SampleWire } from '../service.js'
import type { Turn } from '../turn.js'
import { World, type WorldSettings } from './world.js'

const COUNT = 10_000
const ROUNDS = 7
const feedID = `0x1003${'c0'.repeat(30)}`

/**
 * Measures how many microseconds a plugin adds to the way of a report. It takes the least of
 * several rounds, since other work on the machine only adds to a time.
 */
export async function measureCost(
  turn: Turn,
  make: (wire: SampleWire) => Plugin,
  name: string,
  settings: WorldSettings,
  findings: Findings,
): Promise<number> {
  const clock = performance
  let without = Number.POSITIVE_INFINITY
  let withPlugin = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    without = Math.min(without, (await measure(turn, () => ({ name }), settings, clock)).ms)
    const { ms, left } = await measure(turn, make, settings, clock)
    withPlugin = Math.min(withPlugin, ms)
    const isWhole = settings.may.has('drop') || settings.may.has('delay') || left === COUNT
    findings.where = `a stream of ${COUNT} reports`
    findings.check(isWhole, 'drop', `it passed on ${left} of ${COUNT} reports`)
  }
  return Math.max(0, (1000 * (withPlugin - without)) / COUNT)
}

let samples: readonly SampleReport[] | undefined

/** Sends reports over a stream. Returns the milliseconds that they took, and how many left. */
async function measure(
  turn: Turn,
  make: (wire: SampleWire) => Plugin,
  settings: WorldSettings,
  clock: { now(): number },
): Promise<{ readonly ms: number; readonly left: number }> {
  const time = turn.startTime()
  try {
    const world = new World(time, new Findings(''), settings)
    const member = world.join(make(world.service.wire))
    member.observer.comparesFields = false
    const stream = world.open(member, [feedID])
    stream.on('report', () => undefined)
    world.begin('connect', stream.connect())
    await world.settle()
    samples ??= Array.from({ length: COUNT }, (_, index) =>
      sampleReport({ feedID, observationsTimestamp: 1000 * world.start - COUNT + index }),
    )
    const start = clock.now()
    for (const report of samples) world.service.send(report)
    const ms = clock.now() - start
    const [lane] = member.observer.lanes
    await world.close()
    return { ms, left: lane?.left.length ?? 0 }
  } finally {
    time.end()
  }
}
