import { createHash } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { AuditEvent } from 'sluice/plugins/confidential-http'
import {
  type AuditHead,
  type AuditLogOptions,
  type OpenAuditLog,
  openAuditLog,
  verifyAudit,
} from '../../index.js'

let folder: string
let file: string
const open = new Set<OpenAuditLog>()
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
  file = join(folder, 'audit.jsonl')
})
afterEach(async () => {
  for (const log of open) await log.close().catch(() => undefined)
  open.clear()
  rmSync(folder, { recursive: true, force: true })
})

async function openLog(options: Partial<AuditLogOptions> = {}): Promise<OpenAuditLog> {
  const log = await openAuditLog({ file, ...options })
  open.add(log)
  return log
}

const request = (host = 'api.example'): AuditEvent => ({
  type: 'request',
  caller: 'ab'.repeat(32),
  owner: 'cd'.repeat(20),
  secrets: ['main/apiKey'],
  method: 'POST',
  host,
  bytes: 120,
  encryptOutput: false,
})
const answer = (to: number): AuditEvent => ({
  type: 'answer',
  request: to,
  status: 200,
  sent: true,
  bytes: 2,
  ms: 40,
})

const linesIn = (path = file): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1)
const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** Writes a log of three requests, two of them answered, and closes it. */
async function writeLog(options: Partial<AuditLogOptions> = {}): Promise<AuditHead> {
  const log = await openLog(options)
  const first = await log.append(request())
  await log.append(answer(first))
  const [second] = await Promise.all([log.append(request()), log.append(request())])
  await log.append(answer(second))
  await log.close()
  return log.head
}

describe('an audit log', () => {
  test('has a line for each record, which names the hash of the one before', async () => {
    const head = await writeLog()
    const lines = linesIn()
    const records = lines.map(line => JSON.parse(line))
    expect(records.map(({ type }) => type)).toEqual([
      ...['start', 'request', 'answer', 'request', 'request', 'answer', 'stop'],
    ])
    for (const [index, { seq, previous, time }] of records.entries()) {
      const before = lines[index - 1]
      expect(seq).toBe(index + 1)
      expect(previous).toBe(before === undefined ? '0'.repeat(64) : sha256(before))
      expect(new Date(time).toISOString()).toBe(time)
    }
    expect(records[1]).toMatchObject(request())
    expect(records[2]).toMatchObject(answer(2))
    expect(head).toEqual({ seq: 7, hash: sha256(lines[6] ?? '') })
    expect(await verifyAudit(file, { head })).toEqual({
      files: [file],
      head,
      first: 1,
      unanswered: [5],
      unrecorded: [],
      cuts: [],
      isStopped: true,
      place: { ...head, file: 1, at: expect.any(Number), unanswered: [5] },
    })
  })

  test('is for its owner alone, and goes on where it ended', async () => {
    const umask = process.umask(0)
    await writeLog().finally(() => process.umask(umask))
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(existsSync(`${file}.lock`)).toBe(false)
    const head = await writeLog()
    expect(head.seq).toBe(14)
    expect((await verifyAudit(file)).head).toEqual(head)
    chmodSync(file, 0o644)
    expect(await failureOf(openLog())).toMatchObject({ code: 'PERMISSIONS' })
    await (await openLog({ insecurePermissions: true })).close()
  })

  test('resolves in order, and shares a write among many records', async () => {
    const log = await openLog()
    const seqs = await Promise.all(Array.from({ length: 500 }, () => log.append(request())))
    expect(seqs).toEqual(Array.from({ length: 500 }, (_, index) => index + 2))
    await log.close()
    expect((await verifyAudit(file)).head.seq).toBe(502)
    expect(await failureOf(log.append(request()))).toMatchObject({ code: 'CLOSED' })
  })

  test('gives each record to onRecord, in order, and waits for it', async () => {
    const heads: AuditHead[] = []
    const lines: string[] = []
    let release = (): void => undefined
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    const log = await openLog({
      onRecord(line, head) {
        lines.push(line)
        heads.push(head)
        return head.seq === 2 ? held : undefined
      },
    })
    let isWritten = false
    const first = log.append(request()).then(() => {
      isWritten = true
    })
    await log.append(request())
    expect(isWritten).toBe(false)
    release()
    await first
    await log.close()
    expect(lines).toEqual(linesIn())
    expect(heads.map(({ hash }) => hash)).toEqual(lines.map(sha256))
    expect(heads.at(-1)).toEqual(log.head)
  })

  test('rejects the record whose onRecord throws, without its words, and goes on', async () => {
    const log = await openLog({
      onRecord(_line, { seq }) {
        if (seq === 2) throw new Error('sk-live-x9q7')
        if (seq === 3) return Promise.reject(new Error('sk-live-x9q7'))
        return undefined
      },
    })
    for (const seq of [2, 3]) {
      const error = await failureOf(log.append(request()))
      expect(error).toMatchObject({ name: 'AuditError', code: 'AUDIT', mayHaveBeenSent: false })
      expect(error.message).toBe(`onRecord failed for record ${seq}`)
      expect(error.cause).toBeUndefined()
    }
    expect(await log.append(request())).toBe(4)
  })

  test('rotates when it is full, and is one chain through all files', async () => {
    const seen: number[] = []
    const log = await openLog({ maxBytes: 4096, onRecord: (_, { seq }) => void seen.push(seq) })
    for (let count = 0; count < 60; count++) await log.append(request())
    await log.close()
    const { files, head, first } = await verifyAudit(file, { head: log.head })
    expect(files.length).toBeGreaterThan(3)
    expect(files.at(-1)).toBe(file)
    expect(files[0]).toBe(`${file}.1`)
    expect(first).toBe(1)
    expect(seen).toEqual(Array.from({ length: head.seq }, (_, index) => index + 1))
    expect(JSON.parse(linesIn()[0] ?? '')).toMatchObject({
      type: 'rotate',
      after: `audit.jsonl.${files.length - 1}`,
    })
    for (const each of files) expect(statSync(each).mode & 0o777).toBe(0o600)

    // A file from the middle is missed; that the oldest is elsewhere has to be said.
    renameSync(`${file}.2`, join(folder, 'away'))
    expect(await failureOf(verifyAudit(file))).toMatchObject({ code: 'AUDIT' })
    renameSync(join(folder, 'away'), `${file}.2`)
    rmSync(`${file}.1`)
    const begin = JSON.parse(linesIn(`${file}.2`)[0] ?? '').seq
    for (const options of [{}, { head: log.head }, { first: begin + 1 }])
      expect((await failureOf(verifyAudit(file, options))).message).toMatch(
        `${file}.2 begins with record ${begin}, and should with`,
      )
    expect((await verifyAudit(file, { first: begin, head: log.head })).first).toBe(begin)
    const early = { head: { seq: 1, hash: 'ab'.repeat(32) }, first: begin }
    expect((await failureOf(verifyAudit(file, early))).message).toMatch(/behind the one that was/)
  })

  test.each(['999999999', '1000000', '99999999999999999999'])(
    'does not go on, nor is verified, beside a file of the number %s, which hides the next',
    async number => {
      const log = await openLog({ maxBytes: 4096 })
      writeFileSync(`${file}.${number}`, '')
      const rule = /is no file of this log, or the last that it can have.* Move it away$/
      const append = async (): Promise<void> => {
        for (let count = 0; count < 20; count++) await log.append(request())
      }
      expect((await failureOf(append())).message).toMatch(rule)
      await log.close().catch(() => undefined)
      expect((await failureOf(openLog())).message).toMatch(rule)
      expect((await failureOf(verifyAudit(file))).message).toMatch(rule)
      rmSync(`${file}.${number}`)
      await (await openLog()).close()
    },
  )

  test('goes on after a rotation that was interrupted', async () => {
    const head = await writeLog()
    renameSync(file, `${file}.1`)
    const log = await openLog()
    expect(log.head.seq).toBe(head.seq + 1)
    await log.close()
    expect((await verifyAudit(file, { head })).files).toHaveLength(2)
  })
})

describe('what was changed is found', () => {
  test.each([
    ['a line that is left out', (lines: string[]) => lines.toSpliced(2, 1)],
    ['a line more', (lines: string[]) => lines.toSpliced(2, 0, lines[1] ?? '')],
    ['two lines in another order', ([a, b, c, ...rest]: string[]) => [a, c, b, ...rest]],
    ['an empty line', (lines: string[]) => lines.toSpliced(3, 0, '')],
    ['a first line that is left out, with the number of the next changed', dropFirst],
    ['what is no record', (lines: string[]) => lines.toSpliced(3, 1, '{}')],
    ['a start that names no cut line', (lines: string[]) => [...lines, startAfter(lines)]],
  ])('%s', async (_what, change) => {
    await writeLog()
    writeFileSync(
      file,
      change(linesIn())
        .map(line => `${line}\n`)
        .join(''),
    )
    const error = await failureOf(verifyAudit(file))
    expect(error).toMatchObject({ name: 'AuditError', code: 'AUDIT' })
    expect(error.message).toMatch(/^\/.*audit\.jsonl, line [1-8]/)
    expect(await failureOf(openLog())).toMatchObject({ code: 'AUDIT' })
  })

  function dropFirst(lines: string[]): string[] {
    return lines.slice(1).map((line, index) => line.replace(/"seq":\d+/, `"seq":${index + 1}`))
  }
  function startAfter(lines: string[]): string {
    const last = lines.at(-1) ?? ''
    const cut = { at: 1, bytes: last.length, sha256: sha256(last) }
    const content = { type: 'start', cut }
    return JSON.stringify({ seq: 8, time: '2027', previous: sha256(last), ...content })
  }

  test('every single byte', async () => {
    await writeLog()
    const bytes = readFileSync(file)
    const last = bytes.lastIndexOf('\n', bytes.length - 2)
    for (let at = 0; at < last; at += inForm(29, 3)) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      writeFileSync(file, changed)
      expect(await failureOf(verifyAudit(file))).toMatchObject({ code: 'AUDIT' })
    }
  })

  test('what was removed from the end, and a history rewritten as a whole, by a head from elsewhere', async () => {
    const head = await writeLog()
    const lines = linesIn()
    writeFileSync(
      file,
      lines
        .slice(0, 4)
        .map(line => `${line}\n`)
        .join(''),
    )
    expect((await verifyAudit(file)).head.seq).toBe(4)
    expect((await failureOf(verifyAudit(file, { head }))).message).toMatch(
      /ends with record 4, and record 7 was seen: records were removed from the end$/,
    )
    rmSync(file)
    await writeLog()
    expect((await failureOf(verifyAudit(file, { head }))).message).toMatch(
      /record 7 is another than the one that was seen$/,
    )
  })

  test('what was removed from the beginning, and all of it', async () => {
    const head = await writeLog()
    const lines = linesIn()
    writeFileSync(file, `${lines.slice(2).join('\n')}\n`)
    for (const options of [{}, { head }])
      expect((await failureOf(verifyAudit(file, options))).message).toMatch(
        /begins with record 3, and should with 1: records were removed from the beginning/,
      )
    expect(await verifyAudit(file, { first: 3, head })).toMatchObject({ first: 3, head })
    writeFileSync(file, '')
    expect((await verifyAudit(file)).head.seq).toBe(0)
    expect((await failureOf(verifyAudit(file, { head }))).message).toMatch(
      /is empty, and record 7 was seen: records were removed/,
    )
    expect((await failureOf(verifyAudit(file, { first: 3 }))).message).toMatch(
      /is empty, and should begin with record 3$/,
    )
  })

  test('a head that is none, and a file that is not there', async () => {
    await writeLog()
    for (const head of [{ seq: 0, hash: 'ab'.repeat(32) }, { seq: 1, hash: 'AB'.repeat(32) }, 1])
      expect(await failureOf(verifyAudit(file, { head: head as never }))).toMatchObject({
        code: 'VALIDATION',
      })
    for (const first of [0, 1.5, '1'])
      expect(await failureOf(verifyAudit(file, { first: first as never }))).toMatchObject({
        message: expect.stringMatching(/^first must be/),
      })
    expect(await failureOf(verifyAudit(join(folder, 'none')))).toMatchObject({ code: 'VALIDATION' })
  })
})

describe('a line that was cut off', () => {
  test('is named by the next start, wherever it was cut, and left where it is', async () => {
    await writeLog()
    const bytes = readFileSync(file)
    const last = bytes.lastIndexOf('\n', bytes.length - 2) + 1
    for (let end = last + 1; end < bytes.length; end += inForm(41, 7)) {
      writeFileSync(file, bytes.subarray(0, end))
      expect((await failureOf(verifyAudit(file))).message).toMatch(
        `ends in the midst of a line, which begins at byte ${last}`,
      )
      const cut = { at: last, bytes: end - last, sha256: sha256(bytes.subarray(last, end)) }
      await (await openLog()).close()
      expect(readFileSync(file).subarray(0, end)).toEqual(bytes.subarray(0, end))
      expect((await verifyAudit(file)).cuts).toEqual([{ ...cut, file }])
      expect(linesIn().some(line => line.includes(JSON.stringify({ cut }).slice(1, -1)))).toBe(true)
    }
  })

  test('counts as a record where only its line break is missing', async () => {
    const head = await writeLog()
    writeFileSync(file, readFileSync(file).subarray(0, -1))
    const log = await openLog()
    await log.close()
    expect(log.head.seq).toBe(head.seq + 2)
    expect((await verifyAudit(file, { head })).cuts).toHaveLength(1)
  })

  test('in a file that is the first, and all of it', async () => {
    writeFileSync(file, '{"seq":1', { mode: 0o600 })
    await (await openLog()).close()
    expect(await verifyAudit(file)).toMatchObject({ first: 1, cuts: [{ at: 0, bytes: 8 }] })
  })

  test('can not be claimed later: a start names the line before it and no other', async () => {
    await writeLog()
    const lines = linesIn()
    writeFileSync(file, `${lines.slice(0, -1).join('\n')}\n${lines.at(-1)?.slice(0, 9)}`)
    await (await openLog()).close()
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replace(`${lines.at(-1)?.slice(0, 9)}\n`, '{"seq":99\n'))
    expect(await failureOf(verifyAudit(file))).toMatchObject({ code: 'AUDIT' })
  })
})

describe('a log has one writer', () => {
  test('a second is refused, until the first has closed', async () => {
    const log = await openLog()
    expect((await failureOf(openLog())).message).toMatch(/is written by another process/)
    await log.close()
    await (await openLog()).close()
    expect(statSync(file).size).toBeGreaterThan(0)
  })

  test('notices what somebody else has written, and takes no more records', async () => {
    const log = await openLog()
    appendFileSync(file, 'x\n')
    for (const _ of [1, 2]) {
      const error = await failureOf(log.append(request()))
      expect(error).toMatchObject({ code: 'AUDIT', mayHaveBeenSent: false })
      expect(error.message).toMatch(/was written by somebody else: no more records are$/)
    }
  })

  test.each<[string, (away: string) => void]>([
    ['is deleted', () => rmSync(file)],
    ['is moved away', away => renameSync(file, away)],
    [
      'is replaced by an equal one',
      away => {
        renameSync(file, away)
        copyFileSync(away, file)
      },
    ],
  ])('takes no more records where its file %s', async (_how, change) => {
    for (const maxBytes of [4096, 1_000_000]) {
      const log = await openLog({ maxBytes })
      // One is full, and would be renamed before the next record.
      for (let count = 0; count < 11; count++) await log.append(request())
      expect(statSync(file).size).toBeGreaterThan(4096)
      change(join(folder, 'away'))
      for (const _ of [1, 2]) {
        const error = await failureOf(log.append(request()))
        expect(error).toMatchObject({ code: 'AUDIT', mayHaveBeenSent: false })
        expect(error.message).toMatch(/was replaced or deleted: no more records are written$/)
      }
      await log.close().catch(() => undefined)
      for (const each of readdirSync(folder)) rmSync(join(folder, each))
    }
  })
})

test.each([
  ['a file that is none', { file: 7 }, /^file must be/],
  ['a size that is too small', { maxBytes: 10 }, /^maxBytes must be at least 4096/],
  ['a hook that is none', { onRecord: 7 }, /^onRecord must be a function/],
  ['another fsync', { fsync: 'sometimes' }, /^fsync must be 'each' or 'never', not 'sometimes'$/],
])('%s is refused', async (_what, options, message) => {
  const error = await failureOf(openAuditLog({ file, ...options } as never))
  expect(error).toMatchObject({ name: 'ValidationError' })
  expect(error.message).toMatch(message)
})

test('a folder, and a file that can not be opened, are refused', async () => {
  expect(await failureOf(openAuditLog({ file: folder }))).toMatchObject({ code: 'AUDIT' })
  expect(await failureOf(openAuditLog({ file: join(folder, 'no', 'x') }))).toMatchObject({
    code: 'AUDIT',
  })
})
