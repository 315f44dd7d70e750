import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { runHere } from './support/cli.js'
import { runInShell } from './support/shell.js'

// What `--out` of history does where the file can't be written, and where no report comes.

const feed = `0x0003${'1a'.repeat(30)}`
/** A feed that the service does not have. */
const other = `0x0003${'5a'.repeat(30)}`
const folder = mkdtempSync(join(tmpdir(), 'sluice-history-'))
afterAll(() => rmSync(folder, { recursive: true }))

let engine: DataEngine
beforeEach(async () => {
  engine = await startDataEngine({ feeds: [feed] })
})
afterEach(() => engine.close())

const env = (): Record<string, string> => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})
const history = (id: string, ...more: readonly string[]) =>
  runHere(['history', id, '--from', '1m', ...more], { env: env() })

test.each(['--json', '--parquet'])('a folder is no file for %s', async format => {
  expect(await history(feed, format, '--out', folder)).toEqual({
    code: 2,
    out: '',
    err: `sluice: --out must be the path of a file: ${folder} is a folder\n`,
  })
})

const devices = process.platform === 'linux' ? ['--json', '--csv', '--parquet'] : []
test.each([...devices, '--json --resume'])('a device is no file for %s', async format => {
  const { code, err } = await history(feed, ...format.split(' '), '--out', '/dev/null')
  expect([code, err]).toEqual([2, expect.stringContaining('/dev/null is a device or a pipe')])
})

test.each(['--json', '--parquet'])(
  'a failure before the first report leaves no file: %s',
  async format => {
    const path = join(folder, `none${format}`)
    expect(await history(other, format, '--out', path)).toMatchObject({ code: 3 })
    expect(existsSync(path)).toBe(false)
  },
)

test('a failure before the first report keeps the file that Parquet would replace', async () => {
  const path = join(folder, 'kept.parquet')
  writeFileSync(path, 'before')
  expect(await history(other, '--parquet', '--out', path)).toMatchObject({ code: 3 })
  expect(readFileSync(path, 'utf8')).toBe('before')
})

const full = process.platform === 'linux' ? test : test.skip
full.each(['--json', '--parquet'])(
  'a disk without room is named, and leaves no file: %s',
  async format => {
    const path = join(folder, `full${format}`)
    const args = ['history', feed, '--from', '1m', format, '--out', path]
    const { code, err } = await runInShell('ulimit -f 0; exec "$@"', args, env())
    expect([code, err]).toEqual([2, expect.stringMatching(/--out can’t be written to .*: EFBIG, /)])
    expect(existsSync(path)).toBe(false)
  },
)
