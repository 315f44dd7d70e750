import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import ts from 'typescript'
import { createClient } from '../../index.js'
import { findNodes, order, read, root, sources } from '../support/sources.js'
import { codeOf, type Row, tablesOf, tableUnder } from '../support/tables.js'

const document = read('docs/reference/architecture.md')
/** It has the way of a secret. */
const enclave = read('docs/reference/enclave.md')

/** The names of the functions and classes that a text declares. */
function declaredIn(text: string): ReadonlySet<string> {
  const names = new Set<string>()
  for (const node of findNodes(text)) {
    const isNamed =
      ts.isFunctionDeclaration(node) ||
      ts.isFunctionExpression(node) ||
      ts.isMethodDeclaration(node) ||
      ts.isClassDeclaration(node)
    if (isNamed && node.name !== undefined && ts.isIdentifier(node.name)) names.add(node.name.text)
    const isFunction =
      ts.isVariableDeclaration(node) &&
      node.initializer !== undefined &&
      (ts.isArrowFunction(node.initializer) || ts.isFunctionExpression(node.initializer))
    if (isFunction && ts.isIdentifier(node.name)) names.add(node.name.text)
  }
  return names
}

/** What is wrong with the rows of a table: a file that is not there, a function that its file does not declare. */
function wrongRows(rows: readonly Row[]): string[] {
  return rows.flatMap(row => {
    const [file, name] = [codeOf(row, 'file'), codeOf(row, 'function')]
    if (!existsSync(join(root, file))) return [`there is no ${file}`]
    return declaredIn(read(file)).has(name) ? [] : [`${file} has no function ${name}`]
  })
}

/** Functions that a text names with their files: `name` (`folder/file.ts`). */
function namedInProse(text: string): Row[] {
  return [...text.matchAll(/`(\w+)`\s+\(`([\w./-]+\.ts)`\)/g)].map(([, name = '', file = '']) => ({
    function: name,
    file,
  }))
}

/** Classes that extend the class of the map, in a package that the map can't import. */
const subclasses: Readonly<Record<string, string>> = { RELAY_LOG: 'RelayLogError' }

/** Every error code of the sources with its class. */
function errorCodes(): string[] {
  return sources.flatMap(path =>
    findNodes(read(path)).flatMap(node =>
      ts.isInterfaceDeclaration(node) && node.name.text === 'ErrorClasses'
        ? node.members
            .filter(ts.isPropertySignature)
            .map(
              ({ name, type }) =>
                `${name.getText()} ${subclasses[name.getText()] ?? type?.getText()}`,
            )
        : [],
    ),
  )
}

/** The codes of rows with their classes. */
function documentedCodes(rows: readonly Row[]): string[] {
  return rows.flatMap(row =>
    [...(row['`code`'] ?? '').matchAll(/`(\w+)`/g)].map(
      ([, code]) => `${code} ${row.class?.replaceAll('`', '')}`,
    ),
  )
}

const walks = [document, enclave]
  .flatMap(tablesOf)
  .filter(({ rows: [row] }) => row?.stop !== undefined)

describe('the ways', () => {
  test.each(walks.map(({ heading, rows }) => [heading, rows] as const))('%s', (_heading, rows) => {
    expect(wrongRows(rows)).toEqual([])
    expect(rows.map(({ stop }) => Number(stop))).toEqual(rows.map((_row, at) => at + 1))
    const files = rows.map(row => row.file)
    expect(files).toEqual([...new Set(files)])
    expect(rows.length).toBeLessThanOrEqual(14)
  })

  test('has the ways of a report, a request and a secret', () => {
    expect(walks.map(({ heading }) => heading)).toEqual([
      'The way of a report',
      'The way of a request',
      'The way of a secret',
    ])
  })

  test('has the folders from top to bottom', () => {
    const folders = tableUnder('The folders', document).map(row => codeOf(row, 'folder'))
    const house = order.filter(each => each !== 'examples').reverse()
    expect(folders.map(folder => folder.replace(/\/$/, ''))).toEqual(house)
  })

  test('names functions in its text that are there', () => {
    const named = namedInProse(document)
    expect(named.length).toBeGreaterThan(3)
    expect(wrongRows(named)).toEqual([])
  })

  test.each([
    ['client/stack.ts', 'composeReports', 'client/stack.ts has no function composeReports'],
    ['client/stacks.ts', 'composeReport', 'there is no client/stacks.ts'],
    [
      'client/stream/stream.ts',
      'StreamParts',
      'client/stream/stream.ts has no function StreamParts',
    ],
  ])('would notice %s, %s', (file, name, complaint) => {
    const text = `## A way\n\n| stop | file | function |\n| --- | --- | --- |\n| 1 | \`${file}\` | \`${name}\` |\n`
    expect(wrongRows(tableUnder('A way', text))).toEqual([complaint])
    expect(wrongRows(namedInProse(`first \`${name}\`\n(\`${file}\`) does it`))).toEqual([complaint])
  })
})

test('docs/reference/errors.md has every error code with its class', () => {
  const rows = tablesOf(read('docs/reference/errors.md')).flatMap(table => table.rows)
  const documented = documentedCodes(rows.filter(row => '`code`' in row))
  expect(documented.sort()).toEqual(errorCodes().sort())
})

/** The files of this repository that a stack trace passes, from the outermost call on; each run of one file once. */
function filesOf(trace: string): string[] {
  const files = [...trace.matchAll(/[(\s](\/[^\s():]+\.ts):\d+/g)]
    .map(([, path = '']) => relative(root, path).replaceAll('\\', '/'))
    .filter(path => !/^(node_modules|test)\//.test(path))
    .reverse()
  return files.filter((path, at) => path !== files[at - 1])
}

test('a report enters each file of its way once, in that order', async () => {
  const engine = await startDataEngine({ intervalMs: 20, runAhead: true })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 100
  try {
    const stream = client.createStream(engine.feeds[0] as string)
    // The first report begins the chain of its feed.
    let received = 0
    const trace = await new Promise<string>(resolve => {
      stream.on('report', () => {
        if (++received === 3) resolve(String(new Error('here').stack))
      })
      void stream.connect()
    })
    // Between the plugins stands what gives an error the name of the one that threw.
    const passed = filesOf(trace).filter(file => file !== 'client/stack.ts')
    expect(passed.length).toBeGreaterThan(6)
    const way = tableUnder('The way of a report', document).map(row => codeOf(row, 'file'))
    expect(passed).toEqual(way.filter(file => passed.includes(file)))
    // The others are called on the way and have returned by now.
    const returned = way.filter(file => !passed.includes(file))
    expect(returned).toEqual(way.slice(3, 4))
  } finally {
    Error.stackTraceLimit = stackTraceLimit
    await client.close()
    await engine.close()
  }
})
