import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, isAbsolute, join, relative, sep } from 'node:path'
import { UsageError } from './io.js'
import type { Target } from './name.js'

/** The kind of a project. It is the name of the folder of its template. */
export type Kind = 'app' | 'plugin' | 'decoder' | 'store'

/** The kinds of projects, each with what its template does. */
export const kinds: Readonly<Record<Kind, string>> = {
  app: 'prints prices of the service, or of a local engine without keys',
  plugin: 'drops reports that are too old',
  decoder: 'reads the reports of a version of your own',
  store: 'keeps the cursors of a stream in a JSON file',
}

/** npm packs no .gitignore, and takes a package.json in a folder for that of a package. */
const renamed: Readonly<Record<string, string>> = {
  _gitignore: '.gitignore',
  _gitattributes: '.gitattributes',
  '_package.json': 'package.json',
}

/**
 * What a new repository, an editor or a system puts into a folder. A project is made beside it, and
 * keeps it.
 */
const harmless =
  /^(\.git|\.gitattributes|\.gitignore|\.github|\.hg|\.idea|\.vscode|\.DS_Store|Thumbs\.db|\.editorconfig|(README|LICEN[CS]E|COPYING|SECURITY|CODEOWNERS)(\.\w+)?)$/i

/** Checks that nothing would be overwritten. */
export function checkFolder(folder: string, cwd: string): void {
  const shown = relative(cwd, folder) || 'this folder'
  let files: string[]
  try {
    files = readdirSync(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return
    throw code === 'ENOTDIR'
      ? new UsageError(`folder must be a new or an empty one, and ${shown} is a file`)
      : error
  }
  const other = files.find(file => !harmless.test(file))
  if (other !== undefined)
    throw new UsageError(
      `folder must be new, or have only what a new repository has, and ${shown} has ${other}`,
    )
}

/** The tarballs of our packages in a folder, by the names of the packages. */
export function findTarballs(folder: string, version: string): Readonly<Record<string, string>> {
  const tarballs = {
    sluice: join(folder, `sluice-${version}.tgz`),
    '@sluice/engine': join(folder, `sluice-engine-${version}.tgz`),
  }
  for (const path of Object.values(tarballs))
    if (!existsSync(path))
      throw new UsageError(`packages must be a folder with the tarballs of sluice: no ${path}`)
  return tarballs
}

/** A path of a template as a path of the project. */
function placeOf(path: string): string {
  const parts = path.split(sep)
  const file = parts.pop() as string
  return join(...parts, renamed[file] ?? file)
}

/** The files below a folder, as paths below it. (`readdir` is not recursive in Node 20.0.) */
function filesBelow(folder: string, below = ''): string[] {
  return readdirSync(join(folder, below), { withFileTypes: true }).flatMap(entry => {
    const path = join(below, entry.name)
    return entry.isDirectory() ? filesBelow(folder, path) : [path]
  })
}

/** Has a manifest take our packages from tarballs. */
function takeTarballs(
  text: string,
  folder: string,
  tarballs: Readonly<Record<string, string>>,
): string {
  const manifest = JSON.parse(text)
  for (const wanted of [manifest.dependencies, manifest.devDependencies])
    for (const name of Object.keys(wanted ?? {})) {
      const tarball = tarballs[name]
      if (tarball === undefined) continue
      const path = relative(folder, tarball)
      // For Windows: the path to another drive stays absolute, and a URL has slashes.
      const shown = isAbsolute(path) ? tarball : path
      wanted[name] = `file:${shown.split(sep).join('/')}`
    }
  return `${JSON.stringify(manifest, undefined, 2)}\n`
}

/** What a project is made of. */
export interface ProjectOptions extends Target {
  readonly kind: Kind
  /** The folder of this package. */
  readonly home: string
  /** The version of our packages. */
  readonly version: string
  /** The tarballs to take our packages from. Without them the registry has them. */
  readonly tarballs: Readonly<Record<string, string>> | undefined
}

/**
 * Makes a folder and its missing parents. Node's own recursive form never ends on file systems such
 * as /proc, which answer ENOENT however often one asks.
 */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  if (dirname(path) !== path) makeFolder(dirname(path))
  mkdirSync(path)
}

/**
 * Writes the files of a project. Returns the paths of those that were written, and of those that
 * were there and are kept. Lines that a kept `.gitignore` lacks are added.
 */
export function writeProject(options: ProjectOptions): {
  readonly written: readonly string[]
  readonly kept: readonly string[]
} {
  const { name, folder, kind, home, version, tarballs } = options
  const written: string[] = []
  const kept: string[] = []
  for (const template of ['shared', kind].map(each => join(home, 'templates', each)))
    for (const path of filesBelow(template)) {
      const place = placeOf(path)
      // Templates have LF at the ends of lines on Windows, too: .gitattributes says so.
      const text = readFileSync(join(template, path), 'utf8')
        .replaceAll('{{name}}', name)
        .replaceAll('{{version}}', version)
      if (harmless.test(place) && existsSync(join(folder, place))) {
        if (place === '.gitignore') addLines(join(folder, place), text)
        kept.push(place)
        continue
      }
      const isManifest = place === 'package.json' && tarballs !== undefined
      makeFolder(dirname(join(folder, place)))
      writeFileSync(join(folder, place), isManifest ? takeTarballs(text, folder, tarballs) : text, {
        // Another process may have written the file since the folder was checked.
        flag: 'wx',
      })
      written.push(place)
    }
  return { written, kept }
}

/** Adds to a file the lines of a text that the file lacks. */
function addLines(path: string, text: string): void {
  const there = readFileSync(path, 'utf8')
  const lines = new Set(there.split(/\r?\n/).map(line => line.replace(/^\/|\/$/g, '')))
  const missing = text.split('\n').filter(line => !lines.has(line.replace(/^\/|\/$/g, '')))
  if (missing.length === 0) return
  const end = there === '' || there.endsWith('\n') ? '' : '\n'
  writeFileSync(path, `${there}${end}${missing.join('\n')}\n`)
}
