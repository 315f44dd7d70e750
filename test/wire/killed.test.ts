import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { built } from '../support/files.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { pause, until } from '../support/waiting.js'

/** How often a process is killed for each way to acknowledge: `CURSOR_KILLS=60 npm test -- test/wire/killed` for the long form. */
const KILLS = Number(process.env.CURSOR_KILLS ?? 2)
const MOST_LIVES = 8

const feeds = [1, 2].map(number => feedID(3, number, { milliseconds: true }))
let folder: string
let service: Service
let publishing: NodeJS.Timeout
/** All that was published, in order. */
const published: { readonly feed: string; readonly time: number }[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
  service = await startService({ feeds, signatures: 'dummy' })
  publishing = setInterval(() => {
    const feed = feeds[published.length % 2] as string
    published.push({ feed, time: service.publish(feed).observed })
  }, 40)
})
afterAll(async () => {
  clearInterval(publishing)
  await service.close()
  rmSync(folder, { recursive: true, force: true })
})

/** How a process takes reports: each writes one down before it acknowledges it. */
const consumers = {
  'a handler': `stream.on('report', write)`,
  'a handler that returns a promise': `stream.on('report', async report => {
    await pause(40 * Math.random())
    write(report)
  })`,
  'for await': `void (async () => {
    for await (const report of stream) write(report)
  })()`,
  'manual acknowledgements': `stream.on('report', report => {
    setTimeout(() => {
      write(report)
      report.acknowledge()
    }, 40 * Math.random())
  })`,
} as const

interface Chain {
  readonly name: string
  readonly consumer: string
  readonly options?: object
  /** Whether the first save of each process fails. */
  readonly isFailing?: boolean
}

/** A process with the cursors and the ledger of a chain of processes. */
function startProcess({ name, consumer, options, isFailing = false }: Chain) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const cursors = join(folder, `${name}.json`)
  const ledger = join(folder, `${name}.ledger`)
  const program = `
    const { openSync, writeSync } = require('node:fs')
    const { createClient } = require(${JSON.stringify(built('cjs/index.js'))})
    const { fileCursors } = require(${JSON.stringify(built('cjs/client/stores/index.js'))})
    const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
    const ledger = openSync(${JSON.stringify(ledger)}, 'a')
    const write = ({ feedID, observationsTimestamp: time }) => void writeSync(ledger, feedID + ' ' + time + '\\n')
    const store = fileCursors(${JSON.stringify(cursors)})
    let failures = ${isFailing ? 1 : 0}
    const cursors = {
      ...store,
      save: async saved => {
        if (failures-- > 0) throw new Error('the disk is full')
        await store.save(saved)
      },
    }
    const client = createClient(${JSON.stringify({ apiKey, userSecret, endpoint, wsEndpoint })})
    const stream = client.createStream(${JSON.stringify(feeds)}, {
      cursors, maxReconnectAttempts: Infinity, ...${JSON.stringify(options ?? {})},
    })
    stream.on('error', error => ${isFailing} || writeSync(2, error.message + '\\n'))
    stream.on('gap', gap => writeSync(2, JSON.stringify(gap) + '\\n'))
    ${consumer}
    stream.connect()
  `
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'ignore', 'pipe'] })
  const said: string[] = []
  child.stderr.on('data', chunk => void said.push(String(chunk)))
  const ended = new Promise<void>(resolve => child.on('close', () => resolve()))
  return {
    said,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

function linesOf(name: string, ending = 'ledger'): string[] {
  try {
    return readFileSync(join(folder, `${name}.${ending}`), 'utf8')
      .split('\n')
      .slice(0, -1)
  } catch {
    return []
  }
}

const cursorsOf = (name: string): Readonly<Record<string, number>> =>
  JSON.parse(linesOf(name, 'json').join('') || '{}')

/** What was published of each feed from the first report on that a chain wrote down, up to a time, and is not in its ledger. */
function missing(name: string, until: number): string[] {
  const lines = linesOf(name)
  const written = new Set(lines)
  return feeds.flatMap(feed => {
    const firsts = lines.filter(line => line.startsWith(feed)).map(line => Number(line.slice(67)))
    const first = Math.min(...firsts)
    return published
      .filter(each => each.feed === feed && each.time >= first && each.time <= until)
      .map(({ time }) => `${feed} ${time}`)
      .filter(line => !written.has(line))
  })
}

/** Kills a chain of processes, each so many milliseconds after its first report; the last goes on until nothing is missing. */
async function runChain(chain: Chain, lives: readonly number[]): Promise<string[]> {
  const said: string[] = []
  for (const life of lives) {
    const before = linesOf(chain.name).length
    const process = startProcess(chain)
    await until(() => linesOf(chain.name).length > before, 30_000)
    await pause(life)
    await process.kill()
    said.push(...process.said)
    await pause(300 * Math.random())
  }
  const last = startProcess(chain)
  const end = Date.now()
  await until(
    () => published.some(({ time }) => time > end) && missing(chain.name, end).length === 0,
    20_000,
  ).catch(() => undefined)
  await last.kill()
  expect(missing(chain.name, end)).toEqual([])
  return [...said, ...last.said]
}

const atRandom = (): number => 200 + 800 * Math.random()

test.concurrent.each(Object.entries(consumers))(
  `of a stream that is killed with SIGKILL from 0.2 s after its first report on, nothing is lost: %s`,
  async (name, consumer) => {
    const said: string[] = []
    for (let kills = 0, at = 0; kills < KILLS; at++) {
      const lives = Array.from({ length: Math.min(1 + (at % 3), KILLS - kills) }, atRandom)
      kills += lives.length
      const options = at % 2 === 0 ? { saveInterval: 30_000 } : {}
      said.push(...(await runChain({ name: `${name} ${at}`, consumer, options }, lives)))
    }
    expect(said).toEqual([])
  },
  60_000 + KILLS * 10_000,
)

test.concurrent('so it is where the first save of each process fails', async () => {
  const chain: Chain = {
    name: 'failing',
    consumer: consumers['for await'],
    options: { saveInterval: 30_000 },
    isFailing: true,
  }
  expect(await runChain(chain, [atRandom() + 300])).toEqual([])
}, 60_000)

test.concurrent('a stream that is killed every half second comes on, however long its saveInterval is', async () => {
  const chain: Chain = {
    name: 'loop',
    consumer: consumers['a handler'],
    options: { saveInterval: 30_000 },
  }
  const [feed = ''] = feeds
  await runChain(chain, [500])
  const begin = cursorsOf('loop')[feed] as number
  const lives = Math.min(MOST_LIVES, 1 + KILLS)
  await runChain(chain, Array(lives).fill(500))
  expect(cursorsOf('loop')[feed]).toBeGreaterThan(begin + lives * 300)
}, 120_000)
