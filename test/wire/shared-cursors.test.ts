import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { fileCursors } from '../../client/stores/index.js'
import { type CursorStore, createClient, type StreamOptions } from '../../index.js'
import { built } from '../support/files.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

const feeds = [1, 2].map(number => feedID(3, number, { milliseconds: true }))
const [feed = '', other = ''] = feeds

let folder: string
let service: Service
const closers: (() => Promise<unknown>)[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-shared-'))
  service = await startService({ feeds, signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  await service.close()
  rmSync(folder, { recursive: true, force: true })
})

const configOf = ({ apiKey, userSecret, endpoint, wsEndpoint }: Service) => ({
  apiKey,
  userSecret,
  endpoint,
  wsEndpoint,
})

function open(cursors: CursorStore, feedIDs = feed, options: StreamOptions = {}) {
  const client = createClient(configOf(service))
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { cursors, saveInterval: 0, ...options })
  const errors: Error[] = []
  const times: number[] = []
  stream.on('error', error => void errors.push(error))
  stream.on('report', report => void times.push(report.observationsTimestamp))
  return { stream, errors, times }
}

const fileOf = (path: string): Record<string, number> => JSON.parse(readFileSync(path, 'utf8'))

/** A process that streams with the cursors of a file, and has closed its stream a second after it was asked to end. */
async function startOther(path: string) {
  const program = `
    const { createClient } = require(${JSON.stringify(built('cjs/index.js'))})
    const { fileCursors } = require(${JSON.stringify(built('cjs/client/stores/index.js'))})
    const client = createClient(${JSON.stringify(configOf(service))})
    const stream = client.createStream(${JSON.stringify(feed)}, { cursors: fileCursors(${JSON.stringify(path)}) })
    stream.on('report', () => console.log('report'))
    stream.connect().then(() => console.log('connected'))
    process.on('SIGTERM', () => setTimeout(() => stream.close().then(() => process.exit()), 1000))
  `
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.on('data', chunk => {
    said += String(chunk)
  })
  closers.push(async () => child.kill('SIGKILL'))
  await until(() => said.includes('connected'))
  return { child, said: () => said }
}

describe('a file of cursors', () => {
  test('belongs to one stream of a process, whatever its path is called', async () => {
    const path = join(folder, 'cursors.json')
    const link = join(folder, 'link.json')
    symlinkSync('cursors.json', link)
    const first = open(fileCursors(link))
    await first.stream.connect()
    const second = open(fileCursors(path), other)
    const error = await failureOf(second.stream.connect())
    expect(error).toMatchObject({ code: 'CURSOR_STORE' })
    expect(error.message).toMatch(
      new RegExp(
        `^${path} belongs to this process ${process.pid} on ${hostname()} \\(started at 20\\d\\d-.*Z\\): each stream needs a file of its own$`,
      ),
    )
    expect(second.errors).toEqual([error])
    await failureOf(second.stream.closed)

    const { observed } = service.publish(feed)
    await until(() => readdirSync(folder).includes('cursors.json'))
    await until(() => fileOf(path)[feed] === observed)
    expect(first.errors).toEqual([])
    await expect(fileCursors(path).save({ [other]: 1 })).rejects.toMatchObject({
      code: 'CURSOR_STORE',
    })
    await first.stream.close()
    expect(readdirSync(folder).sort()).toEqual(['cursors.json', 'link.json'])

    const third = open(fileCursors(path), other)
    await third.stream.connect()
    const late = service.publish(other).observed
    await until(() => fileOf(path)[other] === late)
    expect(fileOf(path)).toEqual({ [feed]: observed, [other]: late })
  })

  test('goes from a process to the next in a rolling deploy, and nothing is lost or saved over', async () => {
    const path = join(folder, 'cursors.json')
    const before = await startOther(path)
    const first = service.publish(feed).observed
    await until(() => before.said().includes('report'))
    const { stream, errors, times } = open(fileCursors(path))
    const connecting = stream.connect()
    await until(() => errors.length > 0)
    expect(errors).toMatchObject([{ code: 'CURSOR_STORE' }])
    expect(errors[0]?.message).toMatch(
      new RegExp(
        `belongs to process ${before.child.pid} on ${hostname()}.*, for which this stream waits a minute`,
      ),
    )
    before.child.kill('SIGTERM')
    const published = [service.publish(feed).observed]
    await connecting
    published.push(service.publish(feed).observed)
    await until(() => fileOf(path)[feed] === published[1])
    // What the process before had not taken when it closed comes here.
    expect(times.every(time => time > first)).toBe(true)
    expect(errors).toHaveLength(1)
  })

  test('of a process that was killed is free at once', async () => {
    const path = join(folder, 'cursors.json')
    const { child } = await startOther(path)
    child.kill('SIGKILL')
    const { stream, errors } = open(fileCursors(path))
    await stream.connect()
    expect(errors).toEqual([])
  })

  test('is not waited for by a stream that was closed', async () => {
    const path = join(folder, 'cursors.json')
    const first = open(fileCursors(path))
    await first.stream.connect()
    const second = open(fileCursors(path))
    const connecting = failureOf(second.stream.connect())
    await pause(50)
    await second.stream.close()
    expect(await connecting).toMatchObject({ code: 'CLOSED' })
    await first.stream.close()
    await pause(200)
    // No lock is left.
    expect(readdirSync(folder)).toEqual(['cursors.json'])
  })

  test('is not written by what a closed stream still promises, once another was there', async () => {
    const path = join(folder, 'cursors.json')
    const first = open(fileCursors(path), feed, { acknowledge: 'manual' })
    const acknowledge: (() => void)[] = []
    first.stream.on('report', report => void acknowledge.push(() => report.acknowledge()))
    await first.stream.connect()
    const begin = service.publish(feed).observed
    service.publish(feed)
    await until(() => acknowledge.length === 2)
    await first.stream.close()
    expect(fileOf(path)[feed]).toBe(begin - 1)
    acknowledge[0]?.()
    await until(() => fileOf(path)[feed] === begin)

    const second = open(fileCursors(path), other)
    await second.stream.connect()
    service.publish(other)
    await until(() => fileOf(path)[other] !== undefined)
    await second.stream.close()
    const saved = fileOf(path)
    acknowledge[1]?.()
    await pause(100)
    expect(fileOf(path)).toEqual(saved)
  })
})

test('a stream whose store hangs settles all the same once it is closed, while it saves, too', async () => {
  const { stream } = open({ load: async () => ({}), save: () => new Promise(() => undefined) })
  await stream.connect()
  service.publish(feed)
  await pause(100)
  await stream.close()
})
