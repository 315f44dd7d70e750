import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { findNodes, read, sources } from '../support/sources.js'

/** The value of a literal, or of a constant of the same file; undefined for any other expression. */
function literalOf(expression: ts.Expression, nodes: readonly ts.Node[]): string | undefined {
  if (ts.isNumericLiteral(expression)) return expression.text
  if (ts.isStringLiteral(expression)) return `'${expression.text}'`
  if (/^(true|false|Infinity)$/.test(expression.getText())) return expression.getText()
  if (!ts.isIdentifier(expression)) return undefined
  const constant = nodes.find(
    (node): node is ts.VariableDeclaration =>
      ts.isVariableDeclaration(node) && node.name.getText() === expression.text,
  )
  return constant?.initializer && literalOf(constant.initializer, nodes)
}

/** The defaults in the schemas of a file: `Options.name` and the value. */
function defaultsIn(text: string): readonly (readonly [string, string])[] {
  const nodes = findNodes(text)
  return nodes.flatMap(node => {
    if (!ts.isSatisfiesExpression(node) || !ts.isObjectLiteralExpression(node.expression)) return []
    const of = /^Schema<(\w+)/.exec(node.type.getText())?.[1]
    if (of === undefined) return []
    return node.expression.properties.flatMap(property => {
      if (!ts.isPropertyAssignment(property) || !ts.isCallExpression(property.initializer))
        return []
      const { expression, arguments: given } = property.initializer
      if (expression.getText() !== 'withDefault' || given[0] === undefined) return []
      const value = literalOf(given[0], nodes)
      return value === undefined ? [] : [[`${of}.${property.name.getText()}`, value] as const]
    })
  })
}

/** The words after `@default` in the interfaces of options. */
function documentedIn(text: string): readonly (readonly [string, string])[] {
  return findNodes(text).flatMap(node => {
    if (!ts.isInterfaceDeclaration(node)) return []
    return node.members.flatMap(member => {
      const tag = ts.getJSDocTags(member).find(({ tagName }) => tagName.text === 'default')
      const text = ts.getTextOfJSDocComment(tag?.comment)
      if (text === undefined || member.name === undefined) return []
      return [
        [`${node.name.text}.${member.name.getText()}`, text.trim().replaceAll('_', '')] as const,
      ]
    })
  })
}

const texts = sources.map(read)
const documented = new Map(texts.flatMap(documentedIn))
const defaults = texts.flatMap(defaultsIn)

test('there are schemas with defaults', () => expect(defaults.length).toBeGreaterThanOrEqual(20))

test.each(defaults)('%s is documented with the default of its schema', (option, value) => {
  expect(documented.get(option)).toBe(value)
})

test('a default clock is looked up when it is read, since tests replace it', () => {
  expect(
    sources.filter(path => /withDefault\((Date|performance|globalThis)\./.test(read(path))),
  ).toEqual([])
})
