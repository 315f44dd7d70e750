import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { findNodes, read, root, sources } from '../support/sources.js'
import { codeOf, tableUnder } from '../support/tables.js'

const TEST_LINES = 500
const FUNCTION_LINES = 100
const LONG_FUNCTIONS = 5

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

/** The name of a function, or of what it is given to. */
function nameOf(node: ts.SignatureDeclaration): string {
  const { name, parent } = node
  if (name !== undefined) return name.getText()
  const holder = parent as Partial<ts.NamedDeclaration> | undefined
  return holder?.name?.getText() ?? '(a function without a name)'
}

/** The functions of a text that are too long. */
function longFunctions(text: string): string[] {
  return findNodes(text).flatMap(node => {
    if (!ts.isFunctionLike(node)) return []
    const lines = text.slice(node.getStart(), node.end).split('\n').length
    return lines > FUNCTION_LINES ? [nameOf(node)] : []
  })
}

test(`the functions with more than ${FUNCTION_LINES} lines are those of the list, with a reason each`, () => {
  const found = sources
    .filter(path => !path.startsWith('examples/'))
    .flatMap(path => longFunctions(read(path)).map(name => `${name} in ${path}`))
  const list = tableUnder('Functions over 100 lines', read('docs/architecture.md'))
  const named = list.map(row => `${codeOf(row, 'function')} in ${codeOf(row, 'file')}`)
  expect(found.sort()).toEqual(named.sort())
  expect(list.length).toBeLessThanOrEqual(LONG_FUNCTIONS)
  for (const { reason } of list) expect(reason).not.toBe('')
})

test('would notice a long function, whatever its form', () => {
  const body = '\n'.repeat(FUNCTION_LINES)
  expect(longFunctions(`function a() {${body}}`)).toEqual(['a'])
  expect(longFunctions(`const b = () => {${body}}`)).toEqual(['b'])
  expect(longFunctions(`const o = { c() {${body}}, d: function () {${body}} }`)).toEqual(['c', 'd'])
  expect(longFunctions(`class E { constructor() {${body}} }`)).toHaveLength(1)
  expect(longFunctions(`use(() => {${body}})`)).toEqual(['(a function without a name)'])
  expect(longFunctions(`/**${body}*/\nfunction a() {}`)).toEqual([])
})
