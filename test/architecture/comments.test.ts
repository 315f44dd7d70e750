import { expect, test } from '@jest/globals'
import { read, sources } from '../support/sources.js'

/** Lines of comments that are longer than a line of code may be. Rows of tables and examples are no prose. */
function longLines(text: string): readonly string[] {
  return text
    .split('\n')
    .filter(line => /^\s*(\/?\*|\/\/)/.test(line) && [...line].length > 100)
    .filter(line => !/^\s*\* (\||const |@| {4})/.test(line) && !/@ts-|biome-ignore/.test(line))
}

test('comments end at 100 columns', () => {
  const wrong = sources.flatMap(path => longLines(read(path)).map(line => `${path}: ${line}`))
  expect(wrong).toEqual([])
})

test('would notice a long comment', () => {
  expect(longLines(`/** ${'word '.repeat(20)}*/\nconst x = 1`)).toHaveLength(1)
})
