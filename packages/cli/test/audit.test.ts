import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type AuditHead, openAuditLog } from '@sluice/confidential-http'
import { runHere } from './support/cli.js'

const home = process.cwd()
let folder: string
let head: AuditHead
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
  process.chdir(folder)
  const log = await openAuditLog({ file: join(folder, 'audit.jsonl') })
  const owner = 'ab'.repeat(20)
  const request = { method: 'GET', host: 'api.example', bytes: 1, encryptOutput: false }
  await log.append({ type: 'request', owner, secrets: ['main/apiKey'], ...request })
  await log.close()
  head = log.head
})
afterAll(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true, force: true })
})

const run = (args: readonly string[]) => runHere(['audit', 'verify', ...args])

describe('sluice audit verify', () => {
  test('prints what it found, and the head to look for the next time', async () => {
    const { code, out, err } = await run(['audit.jsonl'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out.split('\n')).toEqual([
      'Records 1 to 3 follow each other',
      'files       audit.jsonl',
      'unanswered  2',
      'end         the enclave was closed',
      `head        ${head.seq}:${head.hash}`,
      '',
    ])
    const json = await run(['audit.jsonl', '--json', '--head', `${head.seq}:${head.hash}`])
    expect(JSON.parse(json.out)).toMatchObject({ head, first: 1, isStopped: true })
  })

  test('ends with 1 where a record was changed, or removed from the end', async () => {
    const text = readFileSync(join(folder, 'audit.jsonl'), 'utf8')
    writeFileSync(join(folder, 'changed'), text.replace('apiKey', 'apiKez'))
    const changed = await run(['changed'])
    expect(changed.code).toBe(1)
    expect(changed.err).toMatch(/changed, line 3 does not follow the one before/)
    writeFileSync(join(folder, 'short'), text.split('\n').slice(0, 2).join('\n').concat('\n'))
    expect((await run(['short'])).code).toBe(0)
    const short = await run(['short', '--head', `${head.seq}:${head.hash}`])
    expect(short.code).toBe(1)
    expect(short.err).toMatch(/records were removed from the end/)
  })

  test('ends with 1 where records were removed from the beginning, unless that is said', async () => {
    const lines = readFileSync(join(folder, 'audit.jsonl'), 'utf8').split('\n')
    writeFileSync(join(folder, 'late'), lines.slice(1).join('\n'))
    const late = await run(['late', '--head', `${head.seq}:${head.hash}`])
    expect(late.code).toBe(1)
    expect(late.err).toMatch(/begins with record 2, and should with 1/)
    const said = await run(['late', '--first', '2'])
    expect(said).toMatchObject({ code: 0, err: '' })
    expect(said.out).toMatch(/^Records 2 to 3 follow each other/)
  })

  test('says that an empty log is empty, and ends with 1 where a head was seen', async () => {
    writeFileSync(join(folder, 'empty'), '')
    expect(await run(['empty'])).toMatchObject({
      code: 0,
      out: 'The log is empty: it has no record\n',
    })
    const seen = await run(['empty', '--head', `${head.seq}:${head.hash}`])
    expect(seen.code).toBe(1)
    expect(seen.err).toMatch(/empty is empty, and record 3 was seen/)
  })

  test.each([
    ['a head that is none', ['audit.jsonl', '--head', '3'], /--head must be a number, a colon/],
    ['a file that is not there', ['nowhere'], /nowhere is not there/],
  ])('refuses %s', async (_what, args, message) => {
    const { code, err } = await run(args)
    expect(code).toBe(2)
    expect(err).toMatch(message)
  })
})
