import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'

/** What the command writes of a row. */
interface Row {
  readonly row: string
  readonly misses: readonly string[]
  readonly sluice: { readonly figures: Readonly<Record<string, unknown>> }
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-matrix-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs the command as `npm run faults` does. */
function runFaults(...args: string[]): Promise<{ code: number | null; out: string }> {
  return new Promise(resolve => {
    const child = spawn(process.execPath, [join(__dirname, 'run.mjs'), ...args])
    let out = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        out += chunk
      })
    child.on('close', code => resolve({ code, out }))
  })
}

test('the short form of the fault matrix holds every bound', async () => {
  const json = join(folder, 'short.json')
  const { code, out } = await runFaults('--short', '--ours-only', '--json', json)
  // Names the rows and figures that missed, where some did.
  expect(out).not.toMatch(/misses its bound/)
  expect(code).toBe(0)
  const { rows } = JSON.parse(readFileSync(json, 'utf8')) as { rows: readonly Row[] }
  expect(rows.length).toBeGreaterThanOrEqual(15)
  for (const { misses, sluice } of rows) {
    expect(misses).toEqual([])
    expect(sluice.figures).toMatchObject({ unhandled: 0, isAlive: true })
  }
}, 200_000)

test('a row that misses its bound fails the command, and is named with the figure', async () => {
  // Whatever is lost, it is no less than nothing.
  const { code, out } = await runFaults('--rows', '33a', '--bound', 'lost=-1')
  expect(out).toMatch(/^row 33a misses its bound: lost is 0, the bound is at most -1$/m)
  // The official SDK ran beside it, without bounds.
  expect(out).toMatch(/row 33a, official: recorded/)
  expect(code).toBe(1)
}, 60_000)

test('a row that is not there is an error', async () => {
  expect(await runFaults('--rows', '99')).toMatchObject({ code: 2 })
})
