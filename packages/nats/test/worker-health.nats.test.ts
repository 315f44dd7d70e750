import { expect, test } from '@jest/globals'
import { feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { queuePreset, workerHealth } from '../index.js'

/** A worker of the queue `desk`, and its health. */
async function startWorker(world: LogWorld, handle: () => unknown, staleAfter = 30_000) {
  const connection = await world.connect()
  const worker = await world.worker({
    connection,
    plugins: queuePreset(),
    stream: { staleAfter },
    wire: { queue: 'desk', maxUnacknowledged: 4 },
  })
  worker.stream.removeAllListeners('report')
  worker.stream.on('report', handle)
  const health = workerHealth(worker.stream, { connection, queue: 'desk' })
  const metric = (name: string): unknown => health.measures.find(each => each.name === name)?.read()
  return { ...worker, health, metric }
}

test('a worker whose handler hangs says so of itself, and the others say that another does', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  let release = (): void => undefined
  const hanging = new Promise<void>(resolve => {
    release = resolve
  })
  const stuck = await startWorker(world, () => hanging)
  const well = await startWorker(world, () => undefined)
  const causes = ({ health }: typeof stuck): string[] => health.problems.map(({ cause }) => cause)
  const timer = setInterval(() => engine.publish(feed(1)), 100)
  try {
    await until(() => causes(stuck).includes('queue-stuck'))
    await until(() => causes(well).includes('held-elsewhere'))
    await pause(4000)
    expect(causes(well)).toEqual(['held-elsewhere'])
    expect(well.health.isReady).toBe(true)
    const words = (of: typeof stuck, which: string): string | undefined =>
      of.health.problems.find(({ cause }) => cause === which)?.message
    expect(words(stuck, 'queue-stuck')).toMatch(
      /^this worker holds 4 reports of queue desk, and has acknowledged none since \d{4}-\S+Z$/,
    )
    expect(words(well, 'held-elsewhere')).toMatch(
      /^another worker of queue desk holds \d+ reports?, and the oldest has not been acknowledged for \d\d s$/,
    )
    expect([stuck.metric('sluice.worker.held'), well.metric('sluice.worker.lag')]).toEqual([
      4,
      expect.any(Number),
    ])
    expect(well.metric('sluice.worker.lag')).toBeLessThan(5)
    release()
    await until(() => causes(stuck).length + causes(well).length === 0)
  } finally {
    clearInterval(timer)
  }
  expect(relay.getMetrics().stored).toBeGreaterThan(300)
}, 90_000)

test('a worker of a queue is not warned of feeds whose reports others got', async () => {
  const world = await startWorld()
  await world.relay(await world.engine())
  const { stream, health } = await startWorker(world, () => undefined, 800)
  let isStale = false
  stream.on('status', ({ type }) => {
    isStale ||= type === 'stale'
  })
  await until(() => isStale)
  health.refresh()
  expect(health.problems).toEqual([])
}, 20_000)
