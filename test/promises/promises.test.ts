// The test of the tests: each promise of the documents has a test that exists. Rows of the fault matrix are programs themselves:
// test/docs/results.test.ts finds that the page has each of them.
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { pageOf, pages } from '../docs/pages.js'
import { root } from '../support/sources.js'
import { tablesOf, tableUnder } from '../support/tables.js'
import { documents, promises } from './promises.js'

/** The test files that a path names: itself, or those below it. */
function testsAt(path: string): string[] {
  const full = join(root, path)
  if (statSync(full, { throwIfNoEntry: false }) === undefined) return []
  if (path.endsWith('.ts')) return [path]
  return readdirSync(full, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.test.ts'))
    .map(name => `${path}/${name}`)
}

/** The command that runs a test: its name says so. */
const commandOf = (path: string): string =>
  /\.(full|nats|servers)\.test\.ts$/.test(path) ? 'npm run test:full' : 'npm test'

const claims = Object.entries(promises).flatMap(([promise, parts]) =>
  Object.entries(parts).map(([claim, tests]) => ({ name: `${promise}: ${claim}`, tests })),
)
const all = [...claims, ...Object.entries(documents).map(([name, tests]) => ({ name, tests }))]

test('each promise of the README is listed, and no other', () => {
  const rows = tableUnder('What it does for you', pageOf('README.md').text)
  expect(Object.keys(promises)).toEqual(rows.map(({ promise }) => promise))
})

test('each document with a table is listed', () => {
  const isListed = (path: string) =>
    Object.keys(documents).some(
      each => each === path || (each.endsWith('/') && path.startsWith(each)),
    )
  const withTables = pages
    .filter(({ path, text }) => path.startsWith('docs/') && tablesOf(text).length > 0)
    .map(({ path }) => path)
  expect(withTables.length).toBeGreaterThan(50)
  expect(withTables.filter(path => !isListed(path))).toEqual([])
})

test('each test that is listed is there', () => {
  const missing = all.flatMap(({ name, tests }) =>
    tests.filter(path => testsAt(path).length === 0).map(path => `${name}: ${path}`),
  )
  expect(missing).toEqual([])
})

test('npm test shows each claim of the README but the fault matrix', () => {
  const onlyFull = claims
    .filter(({ tests }) =>
      tests.flatMap(testsAt).every(path => commandOf(path) === 'npm run test:full'),
    )
    .map(({ name }) => name)
  expect(onlyFull).toEqual(['it recovers: from the faults of the fault matrix'])
})
