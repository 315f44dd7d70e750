import { resolve } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'

const root = resolve(__dirname, '../..')

const files = new Map<string, ts.SourceFile | undefined>()

/** What the compiler says of the program when its import leads to this declaration file. */
function compile(declarations: string): readonly string[] {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: ['node'],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    paths: { sluice: [resolve(root, declarations)] },
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (name, ...given) => {
    if (!files.has(name)) files.set(name, getSourceFile(name, ...given))
    return files.get(name)
  }
  const program = ts.createProgram([resolve(__dirname, 'typed-program.ts')], options, host)
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

test.each([
  ['the official SDK', 'node_modules/@chainlink/data-streams-sdk/dist/src/index.d.ts'],
  ['this library', 'dist/cjs/index.d.ts'],
])('a program typed for the official SDK compiles against %s', (_name, declarations) => {
  expect(compile(declarations)).toEqual([])
})
