import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { read, root } from '../support/sources.js'

const TEST_LINES = 500

function testFilesBelow(path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap(entry => {
    const inner = `${path}/${entry.name}`
    if (entry.isDirectory()) return inner === 'test/vectors' ? [] : testFilesBelow(inner)
    return /\.[mc]?[jt]s$/.test(inner) ? [inner] : []
  })
}

test(`no file of the tests has more than ${TEST_LINES} lines`, () => {
  const long = testFilesBelow('test').filter(path => read(path).split('\n').length > TEST_LINES + 1)
  expect(long).toEqual([])
})
