import { resolve } from 'node:path'
import { expect, test } from '@jest/globals'
import ts from 'typescript'
import { inForm } from '../support/tier.js'

const root = resolve(__dirname, '../..')

const files = new Map<string, ts.SourceFile | undefined>()

/** What the compiler says of the program when its import leads to this declaration file. */
function compile(declarations: string): readonly string[] {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    // Without the types of browsers, which take longer to read than all others.
    lib: ['lib.es2023.d.ts'],
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

/** That the program is right for the official SDK, the full tier tests. */
const declared = [
  ['this library', 'dist/cjs/index.d.ts'],
  ['the official SDK', 'node_modules/@chainlink/data-streams-sdk/dist/src/index.d.ts'],
] as const
test.each(declared.slice(0, inForm(1, 2)))(
  'a program typed for the official SDK compiles against %s',
  (_name, declarations) => {
    expect(compile(declarations)).toEqual([])
  },
)
