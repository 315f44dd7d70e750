import { expect, test } from '@jest/globals'
import { importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'

/** The files that stand in a circle of imports, types included, or between two of them. */
function findCircles(textOf: (path: string) => string, paths: readonly string[]): string[] {
  const imports = new Map(
    paths.map(path => [
      path,
      importsOf(textOf(path)).flatMap(({ from }) => (isRelative(from) ? targetOf(path, from) : [])),
    ]),
  )
  for (let size = Number.POSITIVE_INFINITY; imports.size < size; ) {
    size = imports.size
    const imported = new Set([...imports.values()].flat())
    for (const [path, targets] of imports)
      if (!imported.has(path) || !targets.some(target => imports.has(target))) imports.delete(path)
  }
  return [...imports.keys()]
}

test('no files import each other in a circle, types included', () => {
  expect(findCircles(read, sources)).toEqual([])
})

test('would notice a circle of type imports', () => {
  const texts: Readonly<Record<string, string>> = {
    'core/a.ts': "import { b } from './b.js'",
    'core/b.ts': "import type { C } from './inner/c.js'",
    'core/inner/c.ts': "export type C = import('../b.js').B\nimport { d } from './d.js'",
    'core/inner/d.ts': '',
  }
  const paths = Object.keys(texts)
  expect(findCircles(path => texts[path] ?? '', paths)).toEqual(['core/b.ts', 'core/inner/c.ts'])
})
