// A log that is verified while another process writes and rotates it, and a log on a disk that is full for a while.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { built } from '@sluice/test-support/files.js'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { type AuditPlace, openAuditLog, verifyAudit } from '../../index.js'

const RUNS = Number(process.env.AUDIT_RUNS ?? inForm(6, 60))
/** How often a disk becomes full. */
const FULL_DISKS = Math.ceil(RUNS / 6)

let folder: string
let file: string
let child: ChildProcess | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
  file = join(folder, 'audit.jsonl')
})
afterEach(async () => {
  jest.useRealTimers()
  if (child?.exitCode === null && child.signalCode === null) {
    child.kill('SIGKILL')
    await once(child, 'close')
  }
  child = undefined
  rmSync(folder, { recursive: true, force: true })
})

/** Writes records, and prints each number that counts as written, or the error of one that does not. */
const program = (maxBytes: number, every: number) => `
const { openAuditLog } = require(${JSON.stringify(built('cjs/index.js', 'confidential-http'))})
openAuditLog({ file: process.argv[1], maxBytes: ${maxBytes}, fsync: 'never' }).then(async log => {
  process.on('SIGINT', () => log.close().then(() => process.exit()))
  for (;;) {
    const event = { type: 'request', owner: 'o', secrets: [], method: 'GET', host: 'a'.repeat(200), bytes: 1, encryptOutput: false }
    await log.append(event).then(seq => console.log(seq), error => console.log(error.message))
    await new Promise(done => setTimeout(done, ${every}))
  }
})`

/** What a writer has printed. */
interface Writer {
  readonly out: string
  /** Resolves once it has printed what matches, from a place on. Rejects if it ends before. */
  prints(wanted: RegExp, from?: number): Promise<void>
}

function startWriter(maxBytes: number, every: number, prefix = ''): Writer {
  const script = `${prefix} exec ${process.execPath} -e "$0" "$1"`
  const started = spawn('bash', ['-c', script, program(maxBytes, every), file], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child = started
  let out = ''
  for (const stream of [started.stdout, started.stderr])
    stream.on('data', chunk => {
      out += chunk
    })
  return {
    get out() {
      return out
    },
    prints: (wanted, from = 0) =>
      new Promise((resolve, reject) => {
        function look(): void {
          if (!wanted.test(out.slice(from))) return
          started.stdout.off('data', look)
          resolve()
        }
        started.on('error', reject)
        started.on('close', code => reject(new Error(`the writer ended with ${code}: ${out}`)))
        started.stdout.on('data', look)
        look()
      }),
  }
}

test(
  'beside a writer that rotates, a log is verified without an alarm, from the start and from the last place',
  async () => {
    await startWriter(4096, 0).prints(/\d\n/)
    let from: AuditPlace | undefined
    let skipped = 0
    for (let run = 0; run < RUNS || skipped === 0; run++) {
      const { head, files } = await verifyAudit(file, run % 10 === 0 ? {} : { first: 1 })
      const next = await verifyAudit(file, from === undefined ? {} : { from })
      expect(next.head.seq).toBeGreaterThanOrEqual(head.seq)
      if (next.files.length < files.length) skipped++
      from = next.place
      // So that all history is not thousands of files.
      if (files.length < 50) continue
      child?.kill('SIGINT')
      await once(child as ChildProcess, 'close')
      for (const each of readdirSync(folder)) rmSync(join(folder, each))
      from = undefined
      await startWriter(4096, 0).prints(/\d\n/)
    }
    expect(skipped).toBeGreaterThan(0)
  },
  20_000 + RUNS * 2000,
)

test('a place of another log is refused', async () => {
  const log = await openAuditLog({ file })
  await log.close()
  const { place } = await verifyAudit(file)
  const other = { ...(place as AuditPlace), hash: 'ab'.repeat(32) }
  expect((await failureOf(verifyAudit(file, { from: other }))).message).toMatch(
    /record 2 is another than the one that was seen/,
  )
  const later = { ...(place as AuditPlace), seq: 9 }
  expect((await failureOf(verifyAudit(file, { from: later }))).message).toMatch(/record/)
  expect(await failureOf(verifyAudit(file, { from: { ...later, at: -1 } }))).toMatchObject({
    name: 'ValidationError',
  })
})

test('a full disk ends nothing: records are refused, and go on once there is room', async () => {
  // The system refuses to let the file grow, in the midst of a record.
  const writer = startWriter(1_000_000, 5, "trap '' XFSZ; ulimit -S -f 4;")
  await writer.prints(/(can't be written: EFBIG[\s\S]*){3}/)
  expect(statSync(file).size).toBeLessThanOrEqual(4096)
  execFileSync('prlimit', ['--pid', String(child?.pid), '--fsize=unlimited'])
  await writer.prints(/^\d+\n/m, writer.out.length)
  child?.kill('SIGINT')
  await once(child as ChildProcess, 'close')
  const numbers = writer.out.match(/^\d+$/gm)?.map(Number) ?? []
  const { head, cuts, isStopped } = await verifyAudit(file)
  expect({ isStopped, cuts, last: head.seq }).toEqual({
    isStopped: true,
    cuts: [],
    last: (numbers.at(-1) ?? 0) + 1,
  })
  expect(numbers).toEqual(numbers.map((_, at) => at + 2))
})

test('a disk that is full again and again, and a log that is verified meanwhile, raise no alarm', async () => {
  // A failed write is taken back, also while somebody reads what it has left.
  const writer = startWriter(8192, 0, "trap '' XFSZ; ulimit -S -f 4;")
  const limit = (bytes: number | 'unlimited'): void =>
    void execFileSync('prlimit', ['--pid', String(child?.pid), `--fsize=${bytes}:unlimited`])
  await writer.prints(/EFBIG/)
  let isOver = false
  let runs = 0
  const alarms: string[] = []
  async function verify(): Promise<void> {
    while (!isOver) {
      await verifyAudit(file).catch(error => alarms.push(error.message))
      runs++
    }
  }
  const verifying = [verify(), verify()]
  for (let round = 0; round < FULL_DISKS; round++) {
    limit('unlimited')
    await writer.prints(/^\d+\n/m, writer.out.length)
    const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {}
    limit(Math.min(size + 100 * (round % 7), 6000))
    await writer.prints(/EFBIG/, writer.out.length)
  }
  limit('unlimited')
  isOver = true
  await Promise.all(verifying)
  child?.kill('SIGINT')
  await once(child as ChildProcess, 'close')
  expect(alarms).toEqual([])
  expect(runs).toBeGreaterThan(0)
  const numbers = new Set(writer.out.match(/^\d+$/gm))
  const text = readdirSync(folder)
    .map(each => readFileSync(join(folder, each), 'utf8'))
    .join('')
  const { isStopped, cuts } = await verifyAudit(file)
  expect({ isStopped, cuts }).toEqual({ isStopped: true, cuts: [] })
  // Each that counts as written is there, and none besides: but the records of the log itself.
  const requests = text.match(/"seq":\d+,[^\n]*"type":"request"/g) ?? []
  expect(requests.length).toBe(numbers.size)
}, 120_000)

test('a record waits five seconds for onRecord, and the next does not wait for it', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'Date'] })
  let calls = 0
  const log = await openAuditLog({
    file,
    onRecord: () => (++calls === 2 ? new Promise(() => undefined) : undefined),
  })
  const event = {
    ...{ type: 'request', owner: 'o', secrets: [], method: 'GET', host: 'h' },
    ...{ bytes: 1, encryptOutput: false },
  } as const
  const hung = failureOf(log.append(event))
  expect(await log.append(event)).toBe(3)
  jest.advanceTimersByTime(5000)
  expect((await hung).message).toBe('onRecord has not answered for record 2 within 5000 ms')
  await log.close()
})
