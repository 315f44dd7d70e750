import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
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
