import { expect, test } from '@jest/globals'
import { importsOf, isRelative, read, sources } from '../support/sources.js'

test('the engine is small, and knows no package, no socket and nothing of what it carries', () => {
  const engine = sources.filter(path => path.startsWith('core/'))
  const lines = engine.flatMap(path => read(path).split('\n'))
  expect(lines.length).toBeLessThanOrEqual(1000)
  for (const path of engine) {
    const strangers = importsOf(read(path)).filter(
      ({ from, isType }) => !isRelative(from) && !isType,
    )
    expect(strangers.filter(() => path !== 'core/platform.ts')).toEqual([])
  }
})
