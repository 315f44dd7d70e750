// Chains of processes that stream with cursors and are killed, each of which goes on where the one before it ended.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from '@jest/globals'
import { built } from '../files.js'
import { feedID, type Service, startService } from '../service/service.js'
import { until } from '../waiting.js'

export const feeds: readonly string[] = [1, 2].map(number =>
  feedID(3, number, { milliseconds: true }),
)
const children = new Set<ChildProcess>()
let folder: string
let service: Service
let publishing: NodeJS.Timeout
/** All that was published, in order. */
const published: { readonly feed: string; readonly time: number }[] = []

beforeAll(async () => {
  published.length = 0
  folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
  service = await startService({ feeds, signatures: 'dummy' })
  publishing = setInterval(() => {
    const feed = feeds[published.length % 2] as string
    published.push({ feed, time: service.publish(feed).observed })
  }, 40)
})
afterAll(async () => {
  clearInterval(publishing)
  for (const child of children) child.kill('SIGKILL')
  await service.close()
  rmSync(folder, { recursive: true, force: true })
})

/** How a process takes reports: each writes one down before it acknowledges it. */
export const consumers = {
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

export interface Chain {
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
  const acknowledge = consumer.includes('acknowledge()') ? 'manual' : 'automatic'
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
      cursors, maxReconnectAttempts: Infinity, acknowledge: ${JSON.stringify(acknowledge)},
      ...${JSON.stringify(options ?? {})},
    })
    stream.on('error', error => ${isFailing} || writeSync(2, error.message + '\\n'))
    stream.on('gap', gap => writeSync(2, JSON.stringify(gap) + '\\n'))
    ${consumer}
    stream.connect()
  `
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'ignore', 'pipe'] })
  children.add(child)
  const said: string[] = []
  child.stderr.on('data', chunk => void said.push(String(chunk)))
  let isOver = false
  const ended = new Promise<void>(resolve => {
    child.on('error', error => said.push(String(error)))
    child.on('close', () => {
      isOver = true
      resolve()
    })
  })
  return {
    said,
    /** Waits for a condition, or for the end of the process: that is an error. */
    async until(condition: () => boolean) {
      await until(() => condition() || isOver)
      if (!condition())
        throw new Error(`${name}: the process ended before ${condition}: ${said.join('')}`)
    },
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

export const cursorsOf = (name: string): Readonly<Record<string, number>> =>
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

/** The first cursor of a feed is saved after its first report: a process that is killed before that has lost nothing. */
const hasAll = (cursors: Readonly<Record<string, number>>): boolean =>
  feeds.every(feed => cursors[feed] !== undefined)

/** Kills a chain of processes, each when its time has come; the last goes on until nothing is missing. */
export async function runChain(
  chain: Chain,
  /** Whether a process may be killed: it has written so many lines, and its cursors were these at first. */
  lives: readonly ((lines: number, cursors: Readonly<Record<string, number>>) => boolean)[],
): Promise<string[]> {
  const { name } = chain
  const said: string[] = []
  for (const isOver of lives) {
    const before = linesOf(name).length
    const cursors = cursorsOf(name)
    const process = startProcess(chain)
    await process.until(
      () => hasAll(cursorsOf(name)) && isOver(linesOf(name).length - before, cursors),
    )
    await process.kill()
    said.push(...process.said)
  }
  const last = startProcess(chain)
  const end = Date.now()
  await last.until(
    () => published.some(({ time }) => time > end) && missing(name, end).length === 0,
  )
  await last.kill()
  return [...said, ...last.said]
}

/** A life of so many reports: 25 are published in a second. */
export const reports =
  (count: number) =>
  (lines: number): boolean =>
    lines >= count

/** A life of 1 to 20 reports. */
export const anyReports = (): ((lines: number) => boolean) =>
  reports(1 + Math.floor(20 * Math.random()))
