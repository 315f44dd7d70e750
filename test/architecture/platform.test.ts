import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import { findNodes, importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'

/** Modules of which Node's form alone is needed: what imports them is Node's, too. */
const isNodeAlone = (path: string): boolean => /^platform\/(node|socket)\//.test(path)

const files = sources.filter(path => path.startsWith('platform/'))
const web = files.filter(path => path.endsWith('.web.ts'))
const pairs = web.map(path => [path.replace('.web.ts', '.ts'), path] as const)

/** The names that a module exports as values. */
function valuesOf(text: string): string[] {
  return findNodes(text)
    .flatMap(node => {
      if (ts.isExportSpecifier(node)) return node.isTypeOnly ? [] : [node.name.text]
      const isExported =
        ts.canHaveModifiers(node) &&
        ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true
      if (!isExported) return []
      if (ts.isVariableStatement(node))
        return node.declarationList.declarations.map(({ name }) => name.getText())
      return ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node)
        ? [node.name?.text ?? 'default']
        : []
    })
    .sort()
}

describe('the folder of the platforms', () => {
  test('has for every module two forms, side by side', () => {
    const others = files.filter(path => !pairs.flat().includes(path))
    expect(others.filter(path => !isNodeAlone(path))).toEqual([])
    for (const [node] of pairs) expect(files).toContain(node)
  })

  test.each(pairs)('%s and %s export the same values', (node, path) => {
    expect(valuesOf(read(path))).toEqual(valuesOf(read(node)))
    expect(valuesOf(read(node)).length).toBeGreaterThan(0)
  })

  test.each(web)('%s runs no code of a package, of Node or of its other form', path => {
    const imports = importsOf(read(path)).filter(({ isType }) => !isType)
    const allowed = imports.filter(({ from }) => {
      const target = isRelative(from) ? targetOf(path, from) : ''
      return target.startsWith('core/') || target.endsWith('.web.ts')
    })
    expect(imports).toEqual(allowed)
  })

  test('others import the form for Node, which the build replaces', () => {
    const importing = sources.filter(
      path =>
        !path.startsWith('platform/') &&
        importsOf(read(path)).some(({ from }) => from.endsWith('.web.js')),
    )
    expect(importing).toEqual([])
  })

  test('Node’s alone is imported by Node’s alone', () => {
    const importing = sources.filter(path =>
      importsOf(read(path)).some(
        ({ from }) => isRelative(from) && isNodeAlone(targetOf(path, from)),
      ),
    )
    for (const path of importing)
      expect(path).toMatch(/^(platform\/|client\/stores\/|health\/|internal\.ts)/)
  })

  test('would notice a value that is missing', () => {
    expect(valuesOf('export const a = 1\nexport function b() {}\nconst c = 1')).toEqual(['a', 'b'])
    expect(valuesOf("export { a as b, type C } from 'node:net'")).toEqual(['b'])
  })
})
