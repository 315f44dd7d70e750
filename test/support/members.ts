import { join } from 'node:path'
import ts from 'typescript'
import { read, root } from './sources.js'

const options: ts.CompilerOptions = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
}

/** The members of an interface, those it inherits among them; `more` is added to its file. */
export function membersOf(path: string, name: string, more = ''): string[] {
  const file = join(root, path)
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (asked, ...rest) =>
    asked === file && more !== ''
      ? ts.createSourceFile(asked, `${read(path)}\n${more}`, rest[0])
      : getSourceFile(asked, ...rest)
  return membersIn(ts.createProgram([file], { ...options, noLib: true }, host), path, name)
}

/** Reads the members of interfaces of several files at once, those of types of the platform's library too. */
export function createMembers(
  paths: readonly string[],
): (path: string, name: string) => readonly string[] {
  const files = paths.map(path => join(root, path))
  const lib = { lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'], types: [] }
  const program = ts.createProgram(files, { ...options, ...lib })
  return (path, name) => membersIn(program, path, name)
}

function membersIn(program: ts.Program, path: string, name: string): string[] {
  const found = program
    .getSourceFile(join(root, path))
    ?.statements.find(
      (statement): statement is ts.InterfaceDeclaration =>
        ts.isInterfaceDeclaration(statement) && statement.name.text === name,
    )
  if (found === undefined) throw new Error(`${path} has no interface ${name}`)
  const checker = program.getTypeChecker()
  return checker
    .getPropertiesOfType(checker.getTypeAtLocation(found))
    .map(property => property.getName())
}
