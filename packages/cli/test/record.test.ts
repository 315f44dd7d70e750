import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import zlib, { gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { createRandom } from '@sluice/test-support/random.js'
import { inForm } from '@sluice/test-support/tier.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { type RunningHere, runHere, start } from './support/cli.js'

const feeds = [`0x1003${'1a'.repeat(30)}`, `0x1008${'2b'.repeat(30)}`]

let engine: DataEngine
let dir: string
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-record-'))
  engine = await startDataEngine({ feeds, intervalMs: 20, history: 0, origins: 2 })
})
afterEach(async () => {
  await engine.close()
  rmSync(dir, { recursive: true })
})

const env = (): Record<string, string> => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})
const args = (...more: readonly string[]): readonly string[] => [
  ...['record', ...feeds, '--dir', dir, '--from', '1m', '--flush', '50', ...more],
]
const record = (...more: readonly string[]): RunningHere => start(args(...more), { env: env() })
const files = (): readonly string[] =>
  readdirSync(dir)
    .filter(name => name.startsWith('reports-'))
    .sort()

/** The reports in the files, as the ledger has them. */
function recorded(): readonly string[] {
  return files()
    .map(name => {
      const bytes = readFileSync(join(dir, name))
      return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
    })
    .flatMap(text => text.trim().split('\n'))
    .filter(line => line !== '')
    .map(line => keyOf(JSON.parse(line)))
    .sort()
}

interface Keyed {
  readonly feedID: string
  readonly observationsTimestamp: number
}
const keyOf = ({ feedID, observationsTimestamp: time }: Keyed): string => `${feedID}:${time}`
const published = (): readonly string[] => engine.ledger().map(keyOf).sort()

/** Whether the journal has a later cursor than the recording began with. */
function hasMoved(): boolean {
  const { cursors } = JSON.parse(readFileSync(join(dir, 'recording.json'), 'utf8'))
  const [first] = engine.ledger()
  return first !== undefined && cursors[first.feedID] > first.observationsTimestamp
}

/** Waits until everything is in the files, and ends the recording as Ctrl-C does. */
async function finish(running: RunningHere): Promise<void> {
  engine.pause()
  await until(() => {
    try {
      return recorded().length >= published().length
    } catch {
      return false
    }
  })
  running.stop()
  expect((await running.ended).code).toBe(0)
}

test('every report is in the files once, and gaps finds none', async () => {
  const running = record('--ha')
  await until(() => engine.ledger().length > 60)
  await finish(running)
  expect(recorded()).toEqual(published())
  const gaps = await runHere(['gaps', ...files().map(name => join(dir, name))])
  expect(gaps.out).toBe(`${published().length} reports of 2 feeds: no gaps\n`)
  expect(running.output.err).toMatch(/recording 2 feeds into/)
  expect(running.output.err).toMatch(/origin 001 is connected/)
  expect(running.output.err).toMatch(/reports written\n$/)
})

const seed = Number(process.env.SEED ?? 1)

test(`killed ${inForm(3, 20)} times at random, it loses nothing and writes nothing twice (SEED=${seed})`, async () => {
  const random = createRandom(seed)
  for (let kill = 0; kill < inForm(3, 20); kill++) {
    const { child, ended, shows } = startCommand(args(), { env: env() })
    // At any moment: while it starts, while it reads what it has, and while it writes.
    if (kill % 3 !== 2) await shows(/is connected/)
    // Cursors move once what may be missing before them has been asked for.
    if (kill === 10) await until(() => hasMoved())
    await pause(random.next() * 400)
    child.kill('SIGKILL')
    await ended
  }
  await finish(record())
  expect(recorded()).toEqual(published())
  const gaps = await runHere(['gaps', ...files().map(name => join(dir, name)), '--strict'])
  expect([gaps.code, gaps.err]).toEqual([0, ''])
}, 120_000)

test('files rotate, and what was being written when it ended is written again', async () => {
  const first = record('--rotate-size', '0.01', '--compress', 'none')
  await until(() => files().length > 3)
  first.stop()
  await first.ended
  const last = files().at(-1) as string
  appendFileSync(join(dir, last), '{"feedID":"0x')
  writeFileSync(
    join(
      dir,
      last.replace(/\d{6}/, n => String(Number(n) + 1).padStart(6, '0')),
    ),
    '{"',
  )
  await finish(record())
  expect(recorded()).toEqual(published())
})

const testZstd = 'zstdCompress' in zlib ? test : test.skip
testZstd('with zstd, too', async () => {
  const first = record('--compress', 'zstd')
  await until(() => files().length > 0)
  first.stop()
  await first.ended
  const second = record('--compress', 'zstd')
  await until(() => files().length > 1)
  second.stop()
  expect((await second.ended).code).toBe(0)
  const { out, code } = await runHere(['gaps', ...files().map(name => join(dir, name))])
  expect([out, code]).toEqual([expect.stringMatching(/ reports of 2 feeds: no gaps\n$/), 0])
})

test('two processes do not record into one directory', async () => {
  const running = record()
  await until(() => readdirSync(dir).includes('recording.json'))
  const second = await runHere(args(), { env: env() })
  expect(second.code).toBe(2)
  expect(second.err).toMatch(`sluice: --dir: this process ${process.pid} on `)
  expect(second.err).toMatch(` records into ${dir}: ${join(dir, 'recording.lock')} is its lock\n`)
  running.stop()
  await running.ended
})

test('a directory whose journal is missing is not touched', async () => {
  writeFileSync(join(dir, 'reports-000001-20270131T120000Z.ndjson'), 'precious\n')
  const { code, err } = await runHere(args(), { env: env() })
  expect([code, err]).toEqual([
    2,
    `sluice: --dir: ${dir} holds recorded files, and no recording.json\n`,
  ])
  expect(files()).toHaveLength(1)
})
