import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

/** The repository. */
export const root: string = join(__dirname, '../..')
/** The text of a file. */
export const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** The packages that stand on the library, from the bottom up. */
export const packages: readonly string[] = [
  'packages/engine',
  'packages/confidential-http',
  'packages/nats',
  'packages/sinks',
  'packages/cli',
  'packages/mcp',
  'packages/create-sluice',
]

/** The folders from the bottom up: each imports only what stands before it, types included. */
export const order: readonly string[] = [
  'core',
  'platform',
  'crypto',
  'report',
  'client',
  'plugins',
  'proof',
  'health',
  'presets',
  'testing',
  'official-sdk.ts',
  'index.ts',
  'internal.ts',
  ...packages,
  'examples',
]

/** What `npm create sluice` makes projects of: code of users, which imports as they do. */
export const templates = 'packages/create-sluice/templates'

/** An import of a module that a user names. One file may do so. */
export const NOT_LITERAL = '(not a literal)'

/** An import, and whether it is gone after the build. */
export interface Import {
  readonly from: string
  readonly isType: boolean
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly main: string
  readonly repository: { readonly url: string }
  readonly types: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
  readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
}

/** The package.json of the library. */
export const manifest: Manifest = JSON.parse(read('package.json'))
/** The package.json of the library, or of the package that a folder is. */
export const manifestOf = (house: string): Manifest =>
  packages.includes(house) ? JSON.parse(read(`${house}/package.json`)) : manifest

function filesBelow(path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap(entry => {
    const inner = `${path}/${entry.name}`
    if (!entry.isDirectory()) return inner.endsWith('.ts') ? [inner] : []
    return /^(test|dist.*|node_modules)$/.test(entry.name) || inner === templates
      ? []
      : filesBelow(inner)
  })
}

/** Every source file of the library, of its packages and of the examples. */
export const sources: readonly string[] = order.flatMap(each =>
  each.endsWith('.ts') ? [each] : filesBelow(each),
)

const nodesOf = new Map<string, readonly ts.Node[]>()

/** Every node of a source text. */
export function findNodes(text: string): readonly ts.Node[] {
  const found = nodesOf.get(text)
  if (found !== undefined) return found
  const nodes: ts.Node[] = []
  nodesOf.set(text, nodes)
  function visit(node: ts.Node): void {
    nodes.push(node)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true))
  return nodes
}

/** What a node imports: `import`, `export … from`, `import()` as a call and as a type, `require()`. */
function importOf(node: ts.Node): Import | undefined {
  const textOf = (literal: ts.Node | undefined): string =>
    literal !== undefined && ts.isStringLiteralLike(literal) ? literal.text : NOT_LITERAL
  if (ts.isImportDeclaration(node)) {
    // `import { type A } from` still runs the module: only `import type` is gone after the build.
    return { from: textOf(node.moduleSpecifier), isType: node.importClause?.isTypeOnly === true }
  }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined)
    return { from: textOf(node.moduleSpecifier), isType: node.isTypeOnly }
  if (ts.isImportTypeNode(node)) {
    const { argument } = node
    return {
      from: textOf(ts.isLiteralTypeNode(argument) ? argument.literal : undefined),
      isType: true,
    }
  }
  if (ts.isExternalModuleReference(node)) return { from: textOf(node.expression), isType: false }
  if (!ts.isCallExpression(node)) return undefined
  const { expression } = node
  const isCall =
    expression.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(expression) && expression.text === 'require')
  return isCall ? { from: textOf(node.arguments[0]), isType: false } : undefined
}

/** The imports of a source text. */
export function importsOf(text: string): Import[] {
  return findNodes(text).flatMap(node => importOf(node) ?? [])
}

/** `core` for a file of core, `packages/nats` for one of that package, `index.ts` for itself. */
export const houseOf = (path: string): string =>
  path
    .split('/')
    .slice(0, path.startsWith('packages/') ? 2 : 1)
    .join('/')

/** True for an import of a file of the repository. */
export const isRelative = (from: string): boolean => /^\.{1,2}\//.test(from)

/** The file that a relative import of another file names. */
export function targetOf(path: string, from: string): string {
  return join(path, '..', from).replaceAll('\\', '/').replace(/\.js$/, '.ts')
}

/** The package of an import that is not relative. */
export function packageOf(from: string): string {
  return from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/')
}

/** True for a file of a plugin or of a decoder, and not for a part of one. */
export function isPlugin(path: string): boolean {
  return (
    path.startsWith('plugins/') &&
    sources.includes(path) &&
    /\): (Plugin(<[^>]*>)?|EnclavePlugin) \{|= defineDecoder\(/.test(read(path))
  )
}
