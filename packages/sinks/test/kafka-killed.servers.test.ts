// A process that writes to Kafka is killed: each report is in the topic, the reports of a feed are in
// order, and a report is there twice only where a process resumed from its cursor.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { consume, useKafka } from './support/kafka.js'
import { compileProgram, type Program, runProgram } from './support/programs.js'
import { TIME } from './support/reports.js'
import { BATCH, EACH, FEEDS, firstAfter } from './support/server-batches.js'

const world = useKafka()

function lastAcked({ lines }: Program): number {
  const numbers = lines.flatMap(line => /^acked (\d+)$/.exec(line)?.[1] ?? [])
  return Number(numbers.at(-1) ?? -1)
}

/** The numbers of a feed's reports, as they stand in the topic. */
async function readFeeds(topic: string): Promise<readonly (readonly number[])[]> {
  const feeds = new Map<string, number[]>()
  for (const { key, headers, value } of await consume(world.server, topic)) {
    const time = Number(value.observationsTimestamp)
    expect(value.feedID).toBe(key)
    expect(headers['sluice-id']).toBe(`${key}:${time}`)
    feeds.set(key, [...(feeds.get(key) ?? []), time - TIME])
  }
  return [...feeds.values()]
}

test('a process is killed five times', async () => {
  const topic = world.topic()
  await world.open({ brokers: world.server.plain, topic, create: { partitions: 3 } })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-cursor-'))
  const file = join(folder, 'cursor.json')
  const total = 400
  const args = ['kafka', world.server.plain, topic, file, String(total)]
  const path = compileProgram('write-to-server')
  /** The first report that each process wrote. */
  const starts: number[] = []
  for (let kill = 0; kill < 5; kill++) {
    const program = runProgram(path, ...args)
    await program.line('acked')
    await sleep(50 + 30 * kill)
    program.child.kill('SIGKILL')
    await program.ended
    expect(lastAcked(program)).toBeLessThan(total - 1)
    const next = firstAfter(JSON.parse(readFileSync(file, 'utf8')))
    expect(next).toBeGreaterThan(lastAcked(program))
    starts.push(next * EACH)
  }
  const last = runProgram(path, ...args)
  expect(await last.ended).toBe(0)
  rmSync(folder, { recursive: true })

  const feeds = await readFeeds(topic)
  expect(feeds).toHaveLength(FEEDS)
  for (const times of feeds) {
    expect([...new Set(times)]).toEqual(Array.from({ length: total * EACH }, (_, index) => index))
    // Each step is to the next report, or back to where a process resumed.
    const left = new Set(starts)
    for (const [index, time] of times.entries()) {
      if (index === 0 || time === (times[index - 1] ?? 0) + 1) continue
      expect(left).toContain(time)
      left.delete(time)
    }
  }
  // A kill repeats no more than the batch that was on its way.
  const extra = feeds.flat().length - total * BATCH
  expect(extra).toBeLessThanOrEqual(5 * BATCH)
}, 180_000)

test('the broker is killed while a process writes', async () => {
  const topic = world.topic()
  await world.open({ brokers: world.server.plain, topic, create: { partitions: 3 } })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-cursor-'))
  const total = 1500
  const path = compileProgram('write-to-server')
  const args = ['kafka', world.server.plain, topic, join(folder, 'cursor.json'), String(total)]
  const program = runProgram(path, ...args)
  await program.line('acked')
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    await sleep(150)
    await world.server.stop(signal)
    expect(lastAcked(program)).toBeLessThan(total - 1)
    await world.server.start()
  }
  expect(await program.ended).toBe(0)
  rmSync(folder, { recursive: true })
  for (const times of await readFeeds(topic)) {
    // A failed write is repeated as a whole, by a producer that the broker does not know.
    const failures = program.lines.filter(line => line.startsWith('failed')).length
    const back = times.filter((time, index) => index > 0 && time <= (times[index - 1] ?? 0))
    expect(back.length).toBeLessThanOrEqual(failures)
    expect([...new Set(times)]).toEqual(Array.from({ length: total * EACH }, (_, index) => index))
  }
}, 180_000)
