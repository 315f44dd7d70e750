import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { createClient } from '../../index.js'
import { startDataEngine } from '../../local/index.js'
import { membersOf } from '../support/members.js'
import { findNodes, read, sources } from '../support/sources.js'
import { codeOf, tablesOf, tableUnder } from '../support/tables.js'
import { blocks, programOf, readme, root } from './blocks.js'

test('every block compiles under strict', () => {
  const files = new Map(
    blocks.map((block, index) => [
      join(root, 'examples/.out', `readme-${index}.ts`),
      programOf(block),
    ]),
  )
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const settings: ts.CompilerOptions = {
    ...options,
    isolatedDeclarations: false,
    declaration: false,
    noEmit: true,
  }
  const host = ts.createCompilerHost(settings)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = name => files.has(name) || fileExists(name)
  host.readFile = name => files.get(name) ?? readFile(name)
  host.getSourceFile = (name, ...rest) => {
    const text = files.get(name)
    return text === undefined
      ? getSourceFile(name, ...rest)
      : ts.createSourceFile(name, text, rest[0])
  }
  const program = ts.createProgram([...files.keys()], settings, host)
  // Of the blocks alone: the sources have a check of their own.
  const problems = [...files.keys()].flatMap(name => {
    const block = program.getSourceFile(name)
    return ts.getPreEmitDiagnostics(program, block).map(({ messageText, start }) => {
      const line = block?.text.slice(0, start).split('\n').length
      return `${name}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
    })
  })
  expect(problems).toEqual([])
  expect(blocks.length).toBeGreaterThan(7)
}, 60_000)

test('every npm script that it names is there', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(match => match[1] as string)
  expect(named.length).toBeGreaterThan(3)
  for (const name of named) expect(Object.keys(scripts)).toContain(name)
})

/** The names in backticks between two texts of the README, without the parentheses of methods. */
function namedBetween(start: string, end: string): readonly string[] {
  const from = readme.indexOf(start)
  const part = readme.slice(from, readme.indexOf(end, from))
  return [...part.matchAll(/`(\w+)(?:\(\))?`/g)].map(match => match[1] as string)
}

test('every error code is in the table of errors', () => {
  const codes = sources.flatMap(path =>
    findNodes(read(path)).flatMap(node =>
      ts.isInterfaceDeclaration(node) && node.name.text === 'ErrorClasses'
        ? node.members.map(({ name }) => name?.getText() ?? '')
        : [],
    ),
  )
  expect(codes.length).toBeGreaterThan(30)
  const named = tableUnder('Errors', readme).flatMap(row => codeOf(row, '`code`').split(/,\s*/))
  expect(named.sort()).toEqual(codes.sort())
})

test('every hook of a plugin is in the table of hooks, and every member of the scope of a stream in its own', () => {
  const [hooks = [], members = []] = tablesOf(readme)
    .filter(({ heading }) => heading === 'Writing a plugin')
    .map(({ rows }) => rows)
  const hooksNamed = hooks.map(row => codeOf(row, 'hook').replace(/\(.*/, ''))
  expect(['name', ...hooksNamed].sort()).toEqual(membersOf('client/plugin.ts', 'Plugin').sort())
  const membersNamed = members.flatMap(row =>
    codeOf(row, 'member')
      .replace(/\([^)]*\)/g, '')
      .split(', '),
  )
  expect(membersNamed.sort()).toEqual(membersOf('client/scope.ts', 'StreamScope').sort())
})

test('every field of a report is named, and every one of the metrics', async () => {
  const engine = await startDataEngine({ intervalMs: 0, history: 1 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  try {
    const [feedID = ''] = engine.feeds
    const report = await client.getLatestReport(feedID)
    const members = [
      ...Object.keys(report),
      ...Object.getOwnPropertyNames(Object.getPrototypeOf(report)),
    ].filter(name => name !== 'constructor')
    expect(members.length).toBeGreaterThan(8)
    expect(namedBetween('## Reports', '### ')).toEqual(expect.arrayContaining(members))

    const stream = client.createStream(feedID)
    await stream.connect()
    const metrics = stream.getMetrics()
    const [origin = {}] = Object.values(metrics.origins)
    expect(namedBetween('`getMetrics()` returns', '`getConnectionDetails()`')).toEqual(
      expect.arrayContaining([...Object.keys(metrics), ...Object.keys(origin)]),
    )
  } finally {
    await client.close()
    await engine.close()
  }
})
