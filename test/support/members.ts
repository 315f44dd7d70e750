import { join } from 'node:path'
import ts from 'typescript'
import { read, root } from './sources.js'

/** The members of an interface, those it inherits among them; `more` is added to its file. */
export function membersOf(path: string, name: string, more = ''): string[] {
  const file = join(root, path)
  const options = {
    noLib: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (asked, ...rest) =>
    asked === file && more !== ''
      ? ts.createSourceFile(asked, `${read(path)}\n${more}`, rest[0])
      : getSourceFile(asked, ...rest)
  const program = ts.createProgram([file], options, host)
  const found = program
    .getSourceFile(file)
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
