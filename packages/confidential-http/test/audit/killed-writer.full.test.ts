import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { built } from '@sluice/test-support/files.js'
import { type AuditHead, openAuditLog, verifyAudit } from '../../index.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Writes records until it is killed, and prints the head of each that counts as written. */
const program = `const { openAuditLog } = require(${JSON.stringify(built('cjs/index.js', 'confidential-http'))})
const file = process.argv[1]
openAuditLog({ file, maxBytes: 20000 }).then(async log => {
  for (let host = 'a'; ; host = host.length > 200 ? 'a' : host + 'a') {
    const all = [1, 2, 3].map(() => log.append({ type: 'request', owner: 'o', secrets: [], method: 'GET', host, bytes: 1, encryptOutput: false }))
    await Promise.all(all)
    process.stdout.write(log.head.seq + ':' + log.head.hash + '\\n')
  }
})`

test('a writer that is killed at any moment loses no record that it has confirmed', async () => {
  const file = join(folder, 'audit.jsonl')
  let seen: AuditHead | undefined
  for (let round = 0; round < 15; round++) {
    const child = spawn(process.execPath, ['-e', program, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let out = ''
    child.stdout.on('data', chunk => {
      out += chunk
    })
    // It goes on meanwhile: the signal comes at any moment of a record.
    const lines = 4 + Math.floor(Math.random() * 40)
    child.stdout.on('data', () => {
      if (out.split('\n').length > lines) child.kill('SIGKILL')
    })
    const [code, signal] = await once(child, 'close')
    if (signal !== 'SIGKILL') throw new Error(`the writer ended with ${code ?? signal}`)
    const [seq, hash] = out.split('\n').at(-2)?.split(':') ?? []
    seen = { seq: Number(seq), hash: hash ?? '' }
    const log = await openAuditLog({ file })
    await log.close()
    const verified = await verifyAudit(file, { head: seen })
    expect(verified.head.seq).toBeGreaterThan(seen.seq)
    expect(verified.first).toBe(1)
  }
  expect(readFileSync(file, 'utf8')).toContain('"type":"start"')
  expect(seen?.seq).toBeGreaterThan(100)
}, 120_000)
