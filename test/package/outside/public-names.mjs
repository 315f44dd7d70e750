// Which entry of the package exports what a file of it declares.
import { posix } from 'node:path'
import ts from 'typescript'

/**
 * Finds the public names of declarations. `read` has the text of a file, given its path without an ending (`core/async`), or
 * undefined; `entries` has the file of each entry, the preferred one first.
 */
export function createPublicNames(read, entries) {
  const exportsOf = new Map()
  const publicNames = new Map()

  /** The exports of a file, by name: the file that declares it, its name there, and whether only its type is exported. */
  function findExports(file) {
    const known = exportsOf.get(file)
    if (known !== undefined) return known
    const found = new Map()
    exportsOf.set(file, found)
    const stars = []
    const source = ts.createSourceFile(file, read(file) ?? '', ts.ScriptTarget.Latest)
    for (const node of source.statements) {
      for (const name of declaredNames(node)) found.set(name, { file, name, isType: false })
      if (!ts.isExportDeclaration(node) || node.moduleSpecifier === undefined) continue
      const target = fileOf(file, node.moduleSpecifier.text)
      if (node.exportClause === undefined) stars.push(target)
      for (const { name, propertyName = name, isTypeOnly } of node.exportClause?.elements ?? []) {
        const origin = findOrigin(target, propertyName.text)
        found.set(name.text, { ...origin, isType: origin.isType || node.isTypeOnly || isTypeOnly })
      }
    }
    for (const target of stars)
      for (const [name, origin] of findExports(target))
        if (!found.has(name)) found.set(name, origin)
    return found
  }

  function findOrigin(file, name) {
    return findExports(file).get(name) ?? { file, name, isType: false }
  }

  for (const [entry, file] of Object.entries(entries))
    for (const [name, origin] of findExports(file)) {
      const key = `${origin.file}#${origin.name}`
      const known = publicNames.get(key)
      if (known === undefined || (known.isType && !origin.isType))
        publicNames.set(key, { entry, name, isType: origin.isType })
    }

  /** The entry that exports what `file` calls `name`, its type at least, and its name there; undefined where none does. */
  return function findPublic(file, { name, isType }) {
    const origin = findOrigin(file, name)
    const found = publicNames.get(`${origin.file}#${origin.name}`)
    return found?.isType === true && !isType ? undefined : found
  }
}

/** What a statement declares and exports. */
function declaredNames(node) {
  const isExported = node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
  if (isExported !== true) return []
  const declarations = ts.isVariableStatement(node) ? node.declarationList.declarations : [node]
  return declarations.flatMap(({ name }) => name?.text ?? [])
}

/** The file that a relative import of another leads to, without its ending. */
export function fileOf(file, from) {
  return posix.join(posix.dirname(file), from).replace(/\.js$/, '')
}

/**
 * The relative imports of a file, and the modules that it adds types to: each with its place in the text, the file it leads to,
 * and the names it takes.
 */
export function relativeImports(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  return source.statements.flatMap(node => {
    const isAugmentation = ts.isModuleDeclaration(node) && ts.isStringLiteral(node.name)
    const place = isAugmentation ? node.name : node
    const from = (isAugmentation ? node.name : node.moduleSpecifier)?.text
    if (from?.startsWith('.') !== true) return []
    return {
      start: place.getStart(),
      end: place.end,
      keyword: isAugmentation ? '' : ts.isImportDeclaration(node) ? 'import' : 'export',
      target: fileOf(file, from),
      names: isAugmentation ? node.body.statements.map(added) : importedNames(node),
    }
  })
}

function added({ name }) {
  return { name: name.text, as: name.text, isType: true }
}

/** The names of an import, or of an `export … from`; `*` where it has none. */
function importedNames(node) {
  const isImport = ts.isImportDeclaration(node)
  const list = isImport ? node.importClause?.namedBindings : node.exportClause
  const isTypeOnly = isImport ? node.importClause?.isTypeOnly === true : node.isTypeOnly
  return (list?.elements ?? [undefined]).map(element => ({
    name: (element?.propertyName ?? element?.name)?.text ?? '*',
    as: element?.name.text ?? '*',
    isType: isTypeOnly || element?.isTypeOnly === true,
  }))
}
