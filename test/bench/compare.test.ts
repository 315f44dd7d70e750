import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'

const folder = mkdtempSync(join(tmpdir(), 'sluice-compare-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const row = (work: string, figures: readonly number[], unit = 'times', better = 'more'): object => {
  const [median, min, max] = figures
  return {
    ...{ bench: 'decode', work, goal: '', figure: `${median} ${unit}` },
    ...{ spread: `${min} to ${max}, 5 rounds`, median, min, max, rounds: 5, unit, better },
  }
}

const common = { machine: 'two cores', load: { before: 0.1, after: 2 }, sides: { viem: '2.45.0' } }
const before = {
  ...{ ...common, date: '2026-11-01T00:00:00.000Z' },
  rows: [
    row('faster', [40, 38, 42]),
    row('slower', [40, 38, 42]),
    row('touching above', [40, 38, 42]),
    row('touching below', [40, 38, 42]),
    row('more memory', [4, 3.9, 4.1], 'kB', 'less'),
    row('share', [20, 19, 21], '% more', 'less'),
    { bench: 'load', work: 'one round', figure: '2 MB', median: 2, unit: 'MB', better: 'less' },
    row('gone', [1, 1, 1]),
  ],
}
const after = {
  ...{ ...common, date: '2026-11-02T00:00:00.000Z' },
  rows: [
    row('new', [1, 1, 1]),
    row('faster', [50, 43, 60]),
    row('slower', [30, 28, 37]),
    row('touching above', [43, 42, 50]),
    row('touching below', [37, 30, 38]),
    row('more memory', [5, 4.5, 6], 'kB', 'less'),
    row('share', [10, 9, 11], '% more', 'less'),
    { bench: 'load', work: 'one round', figure: '1 MB', median: 1, unit: 'MB', better: 'less' },
  ],
}

function write(name: string, content: unknown): string {
  const path = join(folder, name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

function compare(...paths: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(__dirname, 'run.mjs'), 'compare', ...paths],
    { encoding: 'utf8', timeout: 10_000 },
  )
  return { code: status, out: stdout, err: stderr }
}

test('two runs side by side: the change of each row, and a mark where the spreads do not overlap', () => {
  const paths = [write('A.json', before), write('B.json', after)]
  const { code, out, err } = compare(...paths)
  expect([code, err]).toEqual([0, ''])
  const cells = Object.fromEntries(
    out.split('\n').map(line => {
      const [work = '', ...rest] = line.trim().split(/ {3,}/)
      return [work.replace('decode: ', ''), rest]
    }),
  )
  const one = '40 times (38 to 42, 5 rounds)'
  expect(cells).toMatchObject({
    faster: [one, '50 times (43 to 60, 5 rounds)', '+25 %', 'better'],
    slower: [one, '30 times (28 to 37, 5 rounds)', '-25 %', 'WORSE'],
    'touching above': [one, '43 times (42 to 50, 5 rounds)', '+7.5 %'],
    'touching below': [one, '37 times (30 to 38, 5 rounds)', '-7.5 %'],
    'more memory': [expect.anything(), expect.anything(), '+25 %', 'WORSE'],
    share: [expect.anything(), expect.anything(), '-10 points', 'better'],
    'load: one round': ['2 MB', '1 MB', '-50 %'],
  })
  for (const work of ['touching above', 'touching below', 'load: one round'])
    expect(cells[work]).toHaveLength(3)
  expect(out).toContain(
    `${paths[0]}: 2026-11-01T00:00:00.000Z; two cores; load 0.1 before and 2 after; viem 2.45.0\n`,
  )
  expect(out).toContain(`only in ${paths[0]}: decode: gone\nonly in ${paths[1]}: decode: new\n`)
  expect(out).not.toContain('The machines differ')
})

test('says that the machines differ', () => {
  const { out } = compare(
    write('A.json', before),
    write('B.json', { ...after, machine: 'one core' }),
  )
  expect(out).toContain('The machines differ')
})

test.each([
  ['{', 'it is not JSON'],
  ['null', 'machine must be a string'],
  [{ ...before, date: undefined }, 'date must be a string'],
  [{ ...before, rows: {} }, 'rows must be an array'],
  [{ ...before, rows: [{ bench: 'decode' }] }, 'bench, work and figure of rows[0] must be strings'],
  [{ ...before, rows: [null] }, 'bench, work and figure of rows[0] must be strings'],
  [
    { ...before, rows: [row('faster', [40, 38])].map(each => ({ ...each, max: '42' })) },
    'median, min and max of rows[0] must be numbers',
  ],
])('%j is no run: %s', (content, message) => {
  const path = write('broken.json', content)
  const { code, out, err } = compare(write('A.json', before), path)
  expect([code, out]).toEqual([2, ''])
  expect(err).toBe(`bench: ${path} is not what --json writes: ${message}\n`)
})

test('a file that is not there is an error', () => {
  const { code, err } = compare(write('A.json', before), join(folder, 'nothing.json'))
  expect([code, err]).toEqual([2, expect.stringContaining('ENOENT')])
})
