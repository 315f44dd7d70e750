// What an import of the default entry opens: each file costs more than what is in it.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/sources.js'

const dist = join(root, 'dist', 'esm')

/** The files that a built module imports to begin with, itself among them, and all else that it imports then. */
function loadedBy(entry: string): { readonly files: string[]; readonly others: string[] } {
  const files = new Set([join(dist, entry)])
  const others = new Set<string>()
  for (const file of files)
    for (const [, from = ''] of readFileSync(file, 'utf8').matchAll(
      /^(?:import|export)\b[^;'"]*?(?:from )?'([^']+)'/gm,
    )) {
      if (from.startsWith('.')) files.add(join(dirname(file), from))
      else if (from.startsWith('#')) files.add(join(dist, `${from.slice(1)}.js`))
      else others.add(from)
    }
  return {
    files: Array.from(files, file => relative(dist, file).split(sep).join('/')).sort(),
    others: [...others].sort(),
  }
}

test('the default entry loads eight files at first, no package, and of Node what every program has', () => {
  const { files, others } = loadedBy('index.js')
  expect(files).toEqual([
    'index.js',
    'platform/bytes.js',
    'platform/globals.js',
    'platform/sha256.js',
    'shared/client.js',
    'shared/eventemitter3.js',
    'shared/plugins/verify/lazy-verify-report.js',
    'shared/report.js',
  ])
  expect(others).toEqual(['node:module', 'node:process', 'node:timers', 'node:util'])
})

test('what it loads with the first call is there', () => {
  const client = readFileSync(join(dist, 'shared/client.js'), 'utf8')
  const later = [...client.matchAll(/import\('(\.[^']+)'\)/g)].map(([, from = '']) => from)
  expect(later).toContain('./client/transport.js')
  for (const from of later) expect(existsSync(join(dist, 'shared', from))).toBe(true)
})
