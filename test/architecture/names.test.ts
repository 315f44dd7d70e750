import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { findNodes, houseOf, packages, read, sources } from '../support/sources.js'

/** Names that several files export with one meaning: a general and a special form, or a lazy one. */
const shared = new Set([
  'createClient',
  'Handler',
  'Layer',
  'ConnectionStatus',
  'Stream',
  'Report',
  'verifyReport',
])

/** The names that a file declares and exports. */
function exportedBy(path: string): readonly string[] {
  return findNodes(read(path)).flatMap(node => {
    const declares =
      ts.isFunctionDeclaration(node) ||
      ts.isClassDeclaration(node) ||
      ts.isInterfaceDeclaration(node) ||
      ts.isTypeAliasDeclaration(node)
    if (!declares || !ts.isSourceFile(node.parent)) return []
    const isExported = node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    return isExported && node.name !== undefined ? [node.name.text] : []
  })
}

test('an exported name has one meaning in a package', () => {
  const places = new Map<string, Set<string>>()
  for (const path of sources.filter(each => !each.startsWith('examples/'))) {
    const house = packages.includes(houseOf(path)) ? houseOf(path) : 'sluice'
    for (const name of exportedBy(path)) {
      const files = places.get(`${house}: ${name}`) ?? new Set()
      places.set(`${house}: ${name}`, files.add(path.replace(/\.web\.ts$/, '.ts')))
    }
  }
  const repeated = [...places].flatMap(([name, files]) =>
    files.size > 1 && !shared.has(name.split(': ')[1] ?? '')
      ? `${name} in ${[...files].join(', ')}`
      : [],
  )
  expect(repeated).toEqual([])
})
