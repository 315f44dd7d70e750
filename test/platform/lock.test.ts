import { execFileSync, spawn, spawnSync } from 'node:child_process'
import fs, {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type Lock, ownerOf, startOf, takeLock, thisProcess } from '../../platform/node/lock.js'
import { built } from '../support/files.js'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  path = join(folder, 'x.lock')
  jest.useFakeTimers()
})
afterEach(() => {
  expect(jest.getTimerCount()).toBe(0)
  jest.useRealTimers()
  rmSync(folder, { recursive: true })
})

const facts = thisProcess()
/** A process of another container, which has the id of this one. */
const elsewhere = { ...facts, host: 'container-b', place: 'another boot' }
const parent = { ...facts, pid: process.ppid, start: startOf(process.ppid) }
const write = (owner: object): void => writeFileSync(path, JSON.stringify(owner))
const wait = (ms: number) => jest.advanceTimersByTimeAsync(ms)

/** What comes of taking the lock, once something does. */
function take(patience?: number, signal?: AbortSignal) {
  const waits: string[] = []
  const found: { result?: Lock | string; error?: unknown } = {}
  const options = { signal, waiting: (owner: string) => void waits.push(owner) }
  takeLock(path, patience === undefined ? options : { ...options, patience }).then(
    result => {
      found.result = result
    },
    error => {
      found.error = error
    },
  )
  return { waits, found }
}

test('waits for a process that runs, says so after two seconds, and gives up in the end', async () => {
  write(parent)
  const { found, waits } = take(60_000)
  await wait(1900)
  expect(waits).toEqual([])
  await wait(58_000)
  const name = `process ${process.ppid} on ${facts.host} (started at ${facts.started})`
  expect(waits).toEqual([name])
  expect(found).toEqual({})
  await wait(300)
  expect(found).toEqual({ result: name })
  expect(readdirSync(folder)).toEqual(['x.lock'])
})

test('takes it as soon as its owner gives it up', async () => {
  write(parent)
  const { found } = take(60_000)
  await wait(30_000)
  rmSync(path)
  await wait(100)
  const lock = found.result as Lock
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject(facts)
  expect(lock.other()).toBeUndefined()
  lock.release()
  expect(readdirSync(folder)).toEqual([])
})

test('waits two seconds for this process, whose other stream may be closing', async () => {
  const { found: first } = take()
  await wait(0)
  const { found } = take(60_000)
  await wait(1900)
  expect(found).toEqual({})
  await wait(200)
  expect(found.result).toMatch(`this process ${process.pid} on ${facts.host}`)
  ;(first.result as Lock).release()
})

test.each([
  ['of another machine or container, with the id of this process', JSON.stringify(elsewhere)],
  ['that does not say whose it is', ''],
  ['with another text', '{"pid":-1}'],
])('takes a lock over that shows no sign of life for ten seconds: one %s', async (_whose, text) => {
  writeFileSync(path, text)
  const { found } = take()
  await wait(9900)
  expect(found).toEqual({})
  await wait(300)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject(facts)
  ;(found.result as Lock).release()
})

test('leaves one of another container that shows signs of life', async () => {
  write(elsewhere)
  const { found } = take(30_000)
  for (let at = 1; at <= 15; at++) {
    utimesSync(path, at, at)
    await wait(2000)
  }
  await wait(200)
  expect(found.result).toMatch(`process ${process.pid} on container-b (started at `)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(elsewhere)
})

test('gives signs of life, and makes a lock again that was deleted', async () => {
  const { found } = take()
  await wait(0)
  const lock = found.result as Lock
  utimesSync(path, 1, 1)
  await wait(2000)
  const { mtimeMs } = statSync(path)
  expect(mtimeMs).toBeGreaterThan(1000)
  rmSync(path)
  await wait(2000)
  expect(readdirSync(folder)).toEqual([])
  expect(lock.other()).toBeUndefined()
  expect(readdirSync(folder)).toEqual(['x.lock'])
  lock.release()
})

test('names the process that has taken it over, and leaves that its lock', async () => {
  const { found } = take()
  await wait(0)
  const lock = found.result as Lock
  write(elsewhere)
  await wait(2000)
  expect(lock.other()).toMatch('on container-b')
  lock.release()
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(elsewhere)
})

test('ends the wait with its signal', async () => {
  write(parent)
  const controller = new AbortController()
  const { found } = take(60_000, controller.signal)
  await wait(1000)
  controller.abort(new Error('closed'))
  await wait(0)
  expect(found).toMatchObject({ error: { message: 'closed' } })
})

test('a folder that is not there is an error', async () => {
  path = join(folder, 'none', 'x.lock')
  const { found } = take()
  await wait(0)
  expect(found).toMatchObject({ error: { code: 'ENOENT' } })
})

const isWindows = process.platform === 'win32'

if (!isWindows)
  test('leaves no empty file behind where the disk is full', () => {
    const program = `const { takeLock } = require(${JSON.stringify(built('cjs/internal.js'))})
takeLock(${JSON.stringify(path)}).catch(error => process.exit(error.code === 'EFBIG' ? 7 : 1))`
    // The system refuses to let a file grow.
    const limited = `trap '' XFSZ; ulimit -f 0; exec "$@"`
    const args = ['-c', limited, 'sh', process.execPath, '-e', program]
    expect(spawnSync('sh', args).status).toBe(7)
    expect(readdirSync(folder)).toEqual([])
  })

/** What may be in the place of a lock file, and who must be stopped afterwards. */
const obstacles: [string, (path: string) => unknown][] = [
  ['a link to nothing', path => symlinkSync('nowhere', path)],
  ['a link to itself', path => symlinkSync('x.lock', path)],
  [
    'a link to a lock',
    path => {
      writeFileSync(join(folder, 'other'), JSON.stringify(parent))
      symlinkSync('other', path)
    },
  ],
  ['a folder', path => mkdirSync(path)],
  ...(isWindows
    ? []
    : ([
        [
          'a pipe',
          path => {
            execFileSync('mkfifo', [path])
            // Ends the read of code that waits for a writer.
            const writer = spawn('sh', ['-c', ': > "$0"', path], { stdio: 'ignore' })
            return () => writer.kill()
          },
        ],
        [
          'a socket',
          path =>
            new Promise(resolve => {
              const server = createServer().listen(path, () => resolve(() => server.close()))
            }),
        ],
      ] as [string, (path: string) => unknown][])),
]

describe.each(obstacles)('%s in its place', (what, put) => {
  const kind = what.split(' ')[1] as string
  let stop: unknown
  const obstruct = async (at: string): Promise<void> => {
    stop = await put(at)
  }
  afterEach(() => {
    if (typeof stop === 'function') stop()
    stop = undefined
  })
  const error = () => ({
    name: 'ValidationError',
    message: `the lock file ${path} must be a file, and not a ${kind}: remove it`,
  })

  test('is an error for the process that takes the lock, and for a process that looks for the owner', async () => {
    await obstruct(path)
    const { found } = take(60_000)
    await wait(0)
    expect(found).toMatchObject({ error: error() })
    expect(() => ownerOf(path)).toThrow(error().message)
  })

  test('is an error for the process that holds the lock, and stays', async () => {
    const { found } = take()
    await wait(0)
    const lock = found.result as Lock
    rmSync(path)
    await obstruct(path)
    await wait(2000)
    expect(() => lock.other()).toThrow(error().message)
    lock.release()
    expect(lstatSync(path).isFile()).toBe(false)
  })

  test('of the second lock is an error, too', async () => {
    write({ ...parent, pid: 2 ** 22 + 1 })
    const first = path
    path = `${first}.next`
    await obstruct(path)
    const found: { error?: unknown } = {}
    takeLock(first).catch(thrown => {
      found.error = thrown
    })
    await wait(0)
    // A link to itself is one here to another place.
    expect(found).toMatchObject({ error: error() })
  })
})

test('a lock that others delete whenever it is looked at is an error', async () => {
  const { found } = take()
  await wait(0)
  const lock = found.result as Lock
  // A file that another process creates after each look, and deletes before the next.
  const look = jest.spyOn(fs, 'lstatSync').mockImplementation(() => {
    throw Object.assign(new Error('not there'), { code: 'ENOENT' })
  })
  try {
    expect(() => lock.other()).toThrow(`the lock file ${path} must stay in its place`)
  } finally {
    look.mockRestore()
  }
  lock.release()
  expect(readdirSync(folder)).toEqual([])
})
