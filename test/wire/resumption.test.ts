import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import type { CursorStore } from '../../client/stores/file-cursors.js'
import { fileCursors } from '../../client/stores/index.js'
import { createClient } from '../../index.js'
import { inForm } from '../support/tier.js'
import { failureOf, pause, until } from '../support/waiting.js'

/** How often the process is killed: `RESUMPTION_KILLS=50 npm test -- test/wire/resumption` for the long form. */
const KILLS = Number(process.env.RESUMPTION_KILLS ?? inForm(1, 8))
const SAVE_INTERVAL = 300

let folder: string
let engine: DataEngine
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-resumption-'))
  // In milliseconds, so that ten reports a second are not dated later than the present, which no cursor passes.
  const feeds = Array.from({ length: 5 }, (_, at) => `0x1003${`b${at}`.repeat(30)}`)
  engine = await startDataEngine({ feeds, intervalMs: 100, retain: 100_000 })
})
afterEach(async () => {
  await engine.close()
  rmSync(folder, { recursive: true, force: true })
})

const keyOf = (report: { feedID: string; observationsTimestamp: number }): string =>
  `${report.feedID}:${report.observationsTimestamp}`

const clientOf = ({ apiKey, userSecret, endpoint, wsEndpoint }: DataEngine) =>
  createClient({ apiKey, userSecret, endpoint, wsEndpoint })

/**
 * Streams in a process of its own, which writes down what reaches it, one line each, before it asks for more. With `isBlocking`, a
 * handler takes the first report, and never ends.
 */
function startReader(log: string, isBlocking = false) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const given = { apiKey, userSecret, endpoint, wsEndpoint, feeds: engine.feeds }
  const program = `
    const { openSync, writeSync } = require('node:fs')
    const { createClient } = require(${JSON.stringify(join(__dirname, '../../dist/cjs/index.js'))})
    const { fileCursors } = require(${JSON.stringify(join(__dirname, '../../dist/cjs/client/stores/index.js'))})
    const { feeds, ...config } = ${JSON.stringify(given)}
    const log = openSync(${JSON.stringify(log)}, 'a')
    const cursors = fileCursors(${JSON.stringify(join(folder, 'cursors.json'))})
    const stream = createClient(config).createStream(feeds, { cursors, saveInterval: ${SAVE_INTERVAL}, maxReconnectAttempts: Infinity })
    stream.on('error', error => writeSync(2, error.message + '\\n'))
    stream.on('gap', gap => writeSync(log, 'gap ' + JSON.stringify(gap) + '\\n'))
    if (${isBlocking}) stream.on('report', ({ feedID, observationsTimestamp }) => {
      writeSync(log, feedID + ':' + observationsTimestamp + ' ' + Date.now() + '\\n')
      for (;;);
    })
    if (${isBlocking}) stream.connect()
    else (async () => {
      for await (const { feedID, observationsTimestamp } of stream)
        writeSync(log, feedID + ':' + observationsTimestamp + ' ' + Date.now() + '\\n')
    })()
  `
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = new Promise<void>(resolve => child.on('close', () => resolve()))
  return { child, ended }
}

const linesOf = (file: string): readonly string[] => {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

describe('a stream with cursors', () => {
  test('goes on from its first report when its process is killed in the handler of that report', async () => {
    const [log, again] = ['first.log', 'again.log'].map(name => join(folder, name)) as [
      string,
      string,
    ]
    // A report arrives later than its time.
    for (const origin of engine.origins) origin.delay(1500)
    const blocked = startReader(log, true)
    await until(() => linesOf(log).length === 1)
    blocked.child.kill('SIGKILL')
    await blocked.ended
    for (const origin of engine.origins) origin.delay(0)
    const [first = ''] = linesOf(log)[0]?.split(' ') ?? []
    const reader = startReader(again)
    const taken = () => new Set(linesOf(again).map(line => line.split(' ')[0]))
    await until(() => taken().has(first))
    const time = Number(first.split(':')[1])
    const owed = engine
      .ledger()
      .filter(each => each.observationsTimestamp >= time)
      .map(keyOf)
    await until(() => owed.every(key => taken().has(key)))
    reader.child.kill('SIGKILL')
    await reader.ended
    expect(linesOf(again).filter(line => line.startsWith('gap'))).toEqual([])
  })

  test(
    `loses nothing when its process is killed ${KILLS} times at random, and repeats only what was not saved yet`,
    async () => {
      const log = join(folder, 'delivered.log')
      const killedAt: number[] = []
      let reader = startReader(log)
      await until(() => linesOf(log).length > 0)
      const before = engine.ledger().length
      // A reader that is killed before its first save leaves nothing to go on from.
      await until(() => existsSync(join(folder, 'cursors.json')))
      for (let kill = 0; kill < KILLS; kill++) {
        await pause(200 + Math.random() * 1500)
        reader.child.kill('SIGKILL')
        killedAt.push(Date.now())
        await reader.ended
        await pause(Math.random() * 500)
        reader = startReader(log)
      }
      // Reports enough to lose one: more than 20 for each kill, of all feeds.
      await until(() => engine.ledger().length > before + KILLS * 40)
      engine.pause()
      const [start = ''] = linesOf(log)
      const feeds = new Set(engine.feeds)
      const [firstFeed = '', firstTime = ''] = start.split(/[: ]/)
      expect(feeds.has(firstFeed)).toBe(true)
      const all = engine.ledger().filter(({ feedID }) => feeds.has(feedID))
      const last = all[all.length - 1] as (typeof all)[number]
      await until(() => linesOf(log).some(line => line.startsWith(`${keyOf(last)} `)))
      // A feed is followed from its first delivered report on.
      const published = () => {
        const firsts = new Map<string, number>()
        for (const line of linesOf(log)) {
          const [feedID = '', time] = line.split(/[: ]/)
          if (!firsts.has(feedID)) firsts.set(feedID, Number(time))
        }
        return all.filter(
          ({ feedID, observationsTimestamp: time }) => time >= (firsts.get(feedID) ?? time),
        )
      }
      // What is fetched comes later than what is live.
      await until(() => {
        const keys = new Set(linesOf(log).map(line => line.split(' ')[0]))
        return (
          linesOf(log).some(line => line.startsWith('gap')) ||
          published().every(report => keys.has(keyOf(report)))
        )
      })
      reader.child.kill('SIGTERM')
      await reader.ended

      const lines = linesOf(log)
      expect(lines.filter(line => line.startsWith('gap'))).toEqual([])
      const times = new Map<string, number[]>()
      for (const line of lines) {
        const [key = '', time = ''] = line.split(' ')
        times.set(key, [...(times.get(key) ?? []), Number(time)])
      }
      expect(published().length).toBeGreaterThan(KILLS * 20)
      expect(published().filter(report => !times.has(keyOf(report)))).toEqual([])
      // What came twice had come so shortly before a kill that it may not have been saved.
      const doubled = [...times.values()].filter(each => each.length > 1)
      for (const [first = 0] of doubled) {
        const kill = killedAt.find(time => time >= first - 5)
        expect(kill).toBeDefined()
        expect((kill as number) - first).toBeLessThan(SAVE_INTERVAL + 1000)
      }
      expect(Number(firstTime)).toBeGreaterThan(0)
    },
    30_000 + KILLS * 6000,
  )

  test('goes on where it was closed, fetches what came meanwhile, and says how much that was', async () => {
    const feeds = engine.feeds.slice(0, 3)
    const file = join(folder, 'cursors.json')
    const seen: string[] = []
    const client = clientOf(engine)
    async function follow(isEnough: (count: number) => boolean) {
      const stream = client.createStream(feeds, { cursors: fileCursors(file) })
      const before = seen.length
      stream.on('report', report => void seen.push(keyOf(report)))
      await stream.connect()
      await until(() => isEnough(seen.length - before))
      const metrics = stream.getMetrics()
      await stream.close()
      return metrics
    }
    /** What was published between the first and the last report of a feed, and has not come. */
    const missing = () =>
      engine
        .ledger()
        .filter(({ feedID, observationsTimestamp: time }) => {
          const times = seen
            .filter(key => key.startsWith(feedID))
            .map(key => Number(key.split(':')[1]))
          return feeds.includes(feedID) && time >= Math.min(...times) && time <= Math.max(...times)
        })
        .map(keyOf)
        .filter(key => !seen.includes(key))
    await follow(count => count >= 15)
    const saved = JSON.parse(readFileSync(file, 'utf8'))
    await pause(1000)
    // Live reports come before those that are fetched.
    const { backfilled } = await follow(count => count >= 45 && missing().length === 0)
    expect(backfilled).toBeGreaterThanOrEqual(15)
    expect(new Set(seen).size).toBe(seen.length)
    expect(missing()).toEqual([])
    expect(JSON.stringify(saved)).toContain(feeds[0])
    await client.close()
  })

  test('streams on when its store fails, and says so', async () => {
    const cursors: CursorStore = {
      load: async () => ({}),
      save: async () => {
        throw new Error('the disk is full')
      },
    }
    const client = clientOf(engine)
    const stream = client.createStream(engine.feeds.slice(0, 1), { cursors, saveInterval: 50 })
    const errors: string[] = []
    let reports = 0
    stream.on('error', error => void errors.push(error.message))
    stream.on('report', () => void reports++)
    await stream.connect()
    await until(() => reports > 10)
    expect(errors.join('\n')).toMatch(/the disk is full/)
    await client.close()
  })

  test('saves how far it has come when its signal aborts, and keeps no process waiting', async () => {
    const file = join(folder, 'aborted.json')
    const controller = new AbortController()
    const client = clientOf(engine)
    const stream = client.createStream(engine.feeds.slice(0, 1), {
      cursors: fileCursors(file),
      saveInterval: 100_000,
      signal: controller.signal,
    })
    const times: number[] = []
    stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
    await stream.connect()
    await until(() => times.length > 3)
    controller.abort()
    await stream.closed
    expect(readFileSync(file, 'utf8')).toContain(String(times.at(-1)))
    await client.close()
  })

  test('settles although its store never answers', async () => {
    const never = new Promise<never>(() => undefined)
    const client = clientOf(engine)
    const stream = client.createStream(engine.feeds.slice(0, 1), {
      cursors: { load: () => never, save: async () => undefined },
    })
    const connecting = failureOf(stream.connect())
    await stream.close()
    expect(await connecting).toMatchObject({ code: 'CLOSED' })
    await stream.closed
    await client.close()
  })

  test('may be closed while its store is being read', async () => {
    const cursors: CursorStore = {
      load: () => new Promise(resolve => setTimeout(resolve, 100, {})),
      save: async () => undefined,
    }
    const client = clientOf(engine)
    const stream = client.createStream(engine.feeds.slice(0, 1), { cursors })
    const connecting = failureOf(stream.connect())
    await stream.close()
    expect(await connecting).toMatchObject({ code: 'CLOSED' })
    await stream.closed
    await client.close()
  })
})
