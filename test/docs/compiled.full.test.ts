import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { root } from '../support/sources.js'
import { blocks, programOf } from './blocks.js'

test('every block of TypeScript compiles under strict', () => {
  const files = new Map(
    blocks.map(block => [
      join(root, 'examples/.out', `${block.at.replace(/\W/g, '-')}.ts`),
      { block, source: programOf(block) },
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
  host.readFile = name => files.get(name)?.source ?? readFile(name)
  host.getSourceFile = (name, ...rest) => {
    const source = files.get(name)?.source
    return source === undefined
      ? getSourceFile(name, ...rest)
      : ts.createSourceFile(name, source, rest[0])
  }
  const program = ts.createProgram([...files.keys()], settings, host)
  // Of the blocks alone: the sources have a check of their own.
  const problems = [...files].flatMap(([name, { block }]) => {
    const file = program.getSourceFile(name)
    return ts.getPreEmitDiagnostics(program, file).map(({ messageText, start = 0 }) => {
      const line = file?.text.slice(start).split('\n', 1)[0]
      return `${block.at}: ${ts.flattenDiagnosticMessageText(messageText, '\n')} (${line})`
    })
  })
  expect(problems).toEqual([])
  expect(blocks.length).toBeGreaterThan(7)
})
