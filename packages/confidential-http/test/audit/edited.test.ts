// A log of several files that somebody has changed, in each way at each place.
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { type AuditHead, openAuditLog, verifyAudit } from '../../index.js'

let folder: string
let file: string
let head: AuditHead
let whole: ReadonlyMap<string, string>
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-audit-'))
  file = join(folder, 'audit.jsonl')
  const log = await openAuditLog({ file, maxBytes: 4096, fsync: 'never' })
  for (let at = 0; at < 60; at++) await log.append({ type: 'request', owner: 'o'.repeat(100), at })
  await log.close()
  ;({ head } = await verifyAudit(file))
  whole = new Map(readdirSync(folder).map(each => [each, readFileSync(join(folder, each), 'utf8')]))
  expect(whole.size).toBeGreaterThan(3)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function put(files: ReadonlyMap<string, string>): void {
  for (const each of readdirSync(folder)) rmSync(join(folder, each))
  for (const [name, text] of files) writeFileSync(join(folder, name), text, { mode: 0o600 })
}

/** True where the log as it is now is found to be another. */
const isFound = (): Promise<boolean> =>
  verifyAudit(file, { head }).then(
    () => false,
    error => error.code === 'AUDIT' || error.name === 'ValidationError',
  )

test.each<[string, (lines: readonly string[], at: number) => readonly string[]]>([
  ['removed', (lines, at) => lines.filter((_, index) => index !== at)],
  [
    'written twice',
    (lines, at) => lines.flatMap((each, index) => (index === at ? [each, each] : [each])),
  ],
  [
    'edited',
    (lines, at) =>
      lines.map((each, index) => (index === at ? each.replace(/"type":"./, '"type":"x') : each)),
  ],
  ['cut', (lines, at) => lines.map((each, index) => (index === at ? each.slice(0, -9) : each))],
  ['a byte longer', (lines, at) => lines.map((each, index) => (index === at ? `${each} ` : each))],
  [
    'swapped with the next',
    (lines, at) => {
      const [one = '', other = ''] = lines.slice(at)
      return other === '' ? [] : lines.with(at, other).with(at + 1, one)
    },
  ],
])('a record that was %s is found, wherever it is', async (_name, change) => {
  for (const [name, text] of whole) {
    const lines = text.split('\n').slice(0, -1)
    // The first, the last, and in the full form each between.
    for (let at = 0; at < lines.length; at += inForm(Math.max(1, lines.length - 1), 1)) {
      put(
        new Map([
          ...whole,
          [
            name,
            change(lines, at)
              .map(each => `${each}\n`)
              .join(''),
          ],
        ]),
      )
      expect([name, at, await isFound()]).toEqual([name, at, true])
    }
  }
})

test('files that were removed, exchanged or renamed are found', async () => {
  const names = [...whole.keys()]
  for (const name of names) {
    put(new Map([...whole].filter(([each]) => each !== name)))
    expect([name, await isFound()]).toEqual([name, true])
    for (const other of names)
      if (name < other) {
        const texts = { [name]: whole.get(other) ?? '', [other]: whole.get(name) ?? '' }
        put(new Map([...whole, ...Object.entries(texts)]))
        expect([name, other, await isFound()]).toEqual([name, other, true])
      }
  }
  put(whole)
  renameSync(`${file}.1`, `${file}.99`)
  expect([basename(file), await isFound()]).toEqual([basename(file), true])
  put(whole)
  expect(await isFound()).toBe(false)
})
