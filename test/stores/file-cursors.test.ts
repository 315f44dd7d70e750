import { spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { fileCursors } from '../../client/stores/index.js'
import { built } from '../support/files.js'
import { failureOf, pause } from '../support/waiting.js'

const feed = (digit: number) => `0x0003${String(digit).padStart(60, '0')}`

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-cursors-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('fileCursors', () => {
  test('gives back what was saved, and nothing where nothing was', async () => {
    const path = join(folder, 'cursors.json')
    expect(await fileCursors(path).load()).toEqual({})
    const cursors = { [feed(1)]: 1_700_000_000, [feed(2)]: 0 }
    await fileCursors(path).save(cursors)
    expect(await fileCursors(path).load()).toEqual(cursors)
    await fileCursors(path).save({ [feed(1)]: 5 })
    expect(await fileCursors(path).load()).toEqual({ [feed(1)]: 5 })
    expect(readdirSync(folder)).toEqual(['cursors.json'])
  })

  test.each([
    ['an empty one', '', /not JSON/],
    ['half of one', `{ "${feed(1)}": 17`, /not JSON/],
    ['a list', '[]', /not an object/],
    ['null', 'null', /not an object/],
    ['a strange name', '{ "x": 1 }', /"x" is no feed id/],
    ['a negative time', `{ "${feed(1)}": -1 }`, /is no time/],
    ['a fraction', `{ "${feed(1)}": 1.5 }`, /is no time/],
    ['a text', `{ "${feed(1)}": "1" }`, /is no time/],
  ])(
    'a file that is no record of cursors is an error that names it: %s',
    async (_name, text, message) => {
      const path = join(folder, 'cursors.json')
      writeFileSync(path, text)
      const error = await failureOf(fileCursors(path).load())
      expect(error.message).toMatch(message)
      expect(error.message).toContain(path)
      expect(readFileSync(path, 'utf8')).toBe(text)
    },
  )

  test('what is no file, or too long a one, is not read', async () => {
    const inside = join(folder, 'folder')
    mkdirSync(inside)
    expect((await failureOf(fileCursors(inside).load())).message).toMatch(/not a file|EISDIR/)
    const long = join(folder, 'long')
    writeFileSync(long, Buffer.alloc(16_777_217, 32))
    expect((await failureOf(fileCursors(long).load())).message).toMatch(/more than/)
    expect(() => fileCursors('')).toThrow(/path/)
  })

  test('a folder that is not there is an error, and nothing is left behind', async () => {
    const path = join(folder, 'no', 'cursors.json')
    expect((await failureOf(fileCursors(path).save({}))).message).toMatch(
      /can't be written: ENOENT/,
    )
    const file = join(folder, 'taken')
    mkdirSync(file)
    chmodSync(file, 0o755)
    await failureOf(fileCursors(file).save({}))
    expect(readdirSync(folder)).toEqual(['taken'])
  })

  test('what was read without a lock, and saved by another stream since, is not overwritten', async () => {
    const path = join(folder, 'cursors.json')
    const feed = `0x0003${'aa'.repeat(30)}`
    const idle = () => undefined
    const { signal } = new AbortController()
    await fileCursors(path).save({ [feed]: 1 })
    const store = fileCursors(path)
    expect(await store.load()).toEqual({ [feed]: 1 })
    await fileCursors(path).save({ [feed]: 2 })
    const late = await store.lock?.(signal, idle)
    const failure = await failureOf(store.save({ [feed]: 9 }))
    await late?.()
    expect(failure).toMatchObject({ code: 'CURSOR_STORE' })
    expect(failure.message).toMatch(/was saved by another stream meanwhile/)
    // The next stream of the store locks the file, and reads what is there now.
    const release = await store.lock?.(signal, idle)
    expect(await store.load()).toEqual({ [feed]: 2 })
    await store.save({ [feed]: 3 })
    await release?.()
    expect(readdirSync(folder)).toEqual(['cursors.json'])
  })

  test('loading removes old drafts of this file, and nothing else', async () => {
    const path = join(folder, 'cursors.json')
    const old = '.cursors.json.0123456789abcdef'
    const others = [
      '.cursors.json.0123456789abcde',
      '.cursors.json.0123456789abcdeg',
      '.cursorsXjson.0123456789abcdef',
      '.other.json.0123456789abcdef',
    ]
    for (const name of [old, ...others]) {
      writeFileSync(join(folder, name), '{')
      utimesSync(join(folder, name), 1, 1)
    }
    const young = '.cursors.json.fedcba9876543210'
    writeFileSync(join(folder, young), '{')
    expect(await fileCursors(path).load()).toEqual({})
    expect(readdirSync(folder).sort()).toEqual([...others, young].sort())
  })

  test('whoever is killed while saving leaves the old or the new, never a part', async () => {
    const path = join(folder, 'cursors.json')
    writeFileSync(
      join(folder, 'program.mjs'),
      `import { fileCursors } from ${JSON.stringify(built('esm/client/stores/index.js'))}
const store = fileCursors(process.argv[2])
for (let at = 1; ; at++) {
  const cursors = {}
  for (let feed = 0; feed < 400; feed++) cursors['0x0003' + String(feed).padStart(60, '0')] = at
  await store.save(cursors)
  if (at === 1) console.log('saved')
}`,
    )
    for (let round = 0; round < 6; round++) {
      const child = spawn(process.execPath, [join(folder, 'program.mjs'), path])
      await new Promise(resolve => child.stdout.once('data', resolve))
      await pause(20 * Math.random())
      child.kill('SIGKILL')
      await new Promise(resolve => child.once('close', resolve))
      const cursors = await fileCursors(path).load()
      expect(Object.keys(cursors)).toHaveLength(400)
      expect(new Set(Object.values(cursors)).size).toBe(1)
    }
  })
})
