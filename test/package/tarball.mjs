// Packs the library and its packages, and looks at what is in them.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'
import { isOfCopied } from '../../build/compile.mjs'
import { makeTarball } from '../../build/tarball.mjs'
import { packages, root, runScript, unpack } from './steps.mjs'

const readManifest = unpacked => JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8'))

/** Packs a package into a folder: its name, the tarball, its size, the files in it, and where it lies unpacked. */
async function packOne(name, folder) {
  mkdirSync(folder)
  const packed = makeTarball(packages[name], folder)
  assert.equal(packed.name, name)
  const tarball = join(folder, packed.filename)
  await unpack(tarball, folder)
  return {
    name,
    tarball,
    unpacked: join(folder, 'package'),
    size: packed.size,
    unpackedSize: packed.unpackedSize,
    files: packed.files.map(file => file.path),
  }
}

/** Packs all of them, the library first. They are installed together, as no registry has them. */
export async function pack(folder) {
  const names = Object.keys(packages)
  const all = await Promise.all(
    names.map(name => packOne(name, join(folder, name.replace(/^@sluice\//, '')))),
  )
  return { ...all[0], all, tarballs: all.map(({ tarball }) => tarball) }
}

/** The links of a package's pages that lead nowhere: to no file of the package, and to none of the repository. */
export function findDeadLinks({ name, unpacked }) {
  return ['README.md', 'CHANGELOG.md'].flatMap(page => {
    const path = join(unpacked, page)
    if (!existsSync(path)) return []
    const links = readFileSync(path, 'utf8').matchAll(/\]\(([^()\s#]+)(?:#[^()\s]*)?\)/g)
    return Array.from(links, ([, link]) => link)
      .filter(link => {
        const [, ours] = /\/OWNER\/sluice\/(?:blob|raw)\/v[^/]+\/(.+)$/.exec(link) ?? []
        if (ours !== undefined) return !existsSync(join(root, ours))
        return !/^[a-z]+:/.test(link) && !existsSync(join(unpacked, link))
      })
      .map(link => `${name}: ${page}: ${link}`)
  })
}

/** The files of ours that a file leads to: its imports, the programs it starts, its source map, and the sources of that. */
function filesFrom(file, text) {
  if (file.endsWith('.map'))
    return JSON.parse(text).sources.map(source => posix.join(posix.dirname(file), source))
  if (!/\.(js|d\.ts)$/.test(file)) return []
  const isDeclaration = file.endsWith('.d.ts')
  // Comments may quote an import.
  const code = isDeclaration ? text.replace(/^ *\*.*$/gm, '') : text
  const imports = [...code.matchAll(/\b(?:from|import|require) *\(?["'](\.{1,2}\/[^"']+)["']/g)]
  const forms = [...code.matchAll(/["']#(platform\/[\w-]+)["']/g)]
  const maps = [...code.matchAll(/^\/\/# sourceMappingURL=(.+)$/gm)]
  const programs = [
    ...code.matchAll(/\bnew URL\(["'](\.[^"']+\.js)["'], (?:import\.meta\.url|require\b)/g),
  ]
  return [
    ...[...imports, ...programs].map(([, path]) => {
      const found = posix.join(posix.dirname(file), path)
      return isDeclaration ? found.replace(/js$/, 'd.ts') : found
    }),
    ...maps.map(([, path]) => posix.join(posix.dirname(file), path)),
    ...forms.flatMap(([, path]) =>
      ['.js', '.web.js'].map(ending => posix.join(...file.split('/', 2), `${path}${ending}`)),
    ),
  ]
}

/** What package.json names, all that leads to, and the papers; and nothing else. */
export function checkFiles({ name, files, unpacked }) {
  const { exports, bin = {} } = readManifest(unpacked)
  const named = Object.values(exports).flatMap(entry =>
    typeof entry === 'string'
      ? []
      : Object.values(entry).flatMap(file => [file, file.replace(/js$/, 'd.ts')]),
  )
  const others = ['dist/THIRD-PARTY-LICENSES', 'dist/cjs/package.json'].filter(path =>
    files.includes(path),
  )
  const reached = new Set([
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'package.json',
    ...others,
    ...(name === '@sluice/cli' ? page : []),
    ...(name === 'sluice' ? forTheWeb(unpacked) : []),
    ...(name === 'create-sluice' ? listTemplates() : []),
    ...Object.values(bin),
    ...named.map(posix.normalize),
  ])
  // A set that grows is read to its new end.
  for (const file of reached) {
    if (!files.includes(file)) continue
    for (const next of filesFrom(file, readFileSync(join(unpacked, file), 'utf8')))
      reached.add(next)
  }
  const expected = [...reached]
  const lacking = expected.filter(file => !files.includes(file))
  const extra = files.filter(file => !expected.includes(file))
  assert.deepEqual({ lacking, extra }, { lacking: [], extra: [] })
  return `${files.length} files`
}

/** The page of the monitor, which no module imports. */
const page = ['icon.svg', 'index.html', 'page.css', 'page.js'].map(
  name => `dist/esm/monitor/page/${name}`,
)

/** The templates of projects, but for the settings that compile them here. */
function listTemplates() {
  const folder = join(root, packages['create-sluice'])
  const entries = readdirSync(join(folder, 'templates'), { recursive: true, withFileTypes: true })
  return entries
    .filter(entry => entry.isFile())
    .map(entry => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .map(path => path.split(sep).join('/'))
    .filter(path => path !== 'templates/tsconfig.json')
}

/** What CommonJS has for browsers. */
function forTheWeb(unpacked) {
  const { browser } = JSON.parse(readFileSync(join(unpacked, 'dist/cjs/package.json'), 'utf8'))
  return Object.values(browser).map(path => posix.join('dist/cjs', path))
}

/** A file that several entries share is named for a source, a folder, or a package that is copied, and not by a hash. */
export function checkNames({ name: of, files }) {
  const shared = files.flatMap(
    file => /^dist\/(?:esm|cjs)\/shared\/(.+)\.js$/.exec(file)?.[1] ?? [],
  )
  const at = (...path) => existsSync(join(root, packages[of], ...path))
  const isKnown = name => at(`${name}.ts`) || at(name)
  const unknown = shared.filter(name => !isOfCopied(name) && !isKnown(name))
  assert.deepEqual(unknown, [])
  assert.ok(shared.length > 0 || ['create-sluice', '@sluice/mcp'].includes(of), 'nothing is shared')
  return `${shared.length} shared files`
}

/** What is for a package speaks of its types. */
const peers = [
  ['dist/cjs/', "'sluice"],
  ['dist/cjs/', "'@nats-io/"],
  ['dist/cjs/duckdb/', "'@duckdb/"],
  ['dist/cjs/kafka/', "'@platformatic/kafka'"],
  ['dist/cjs/postgres/', "'pg'"],
  ['dist/cjs/plugins/opentelemetry/index.d.ts', "'@opentelemetry/api'"],
  ['dist/cjs/plugins/prometheus.d.ts', "'prom-client'"],
  ['dist/cjs/health/serve-health.d.ts', "'prom-client'"],
  ['dist/cjs/jest.d.ts', "'jest-environment-node'"],
  ['dist/esm/jest.d.ts', "'jest-environment-node'"],
]

/** What the entry for our packages alone leads to: they run on Node. */
const isOfInternal = file => /^dist\/cjs\/(platform\/node\/|client\/egress\/egress\.d)/.test(file)

/** The other declarations name no package: a consumer needs no types but ours and the platform's. */
export function checkDeclarations({ name, files, unpacked }) {
  const isForeign = line =>
    /\bfrom\s+['"][^.]|\bimport\(['"][^.]|^import\s+['"][^.]|reference types=/.test(line)
  const foreign = files
    .filter(file => file.endsWith('.d.ts'))
    .flatMap(file =>
      readFileSync(join(unpacked, file), 'utf8')
        .split('\n')
        .filter(line => isForeign(line) && !/^\s*(\*|\/\/ )/.test(line))
        // What runs on the platform's own servers may speak of them.
        .filter(line => !((name !== 'sluice' || isOfInternal(file)) && /['"]node:/.test(line)))
        .filter(line => !(name === '@sluice/cli' || /declare module/.test(line)))
        .filter(line => !peers.some(([path, name]) => file.startsWith(path) && line.includes(name)))
        .map(line => `${file}: ${line}`),
    )
  assert.deepEqual(foreign, [])
}

/** A command can be started by its own name. */
export function checkCommand({ unpacked }) {
  for (const path of Object.values(readManifest(unpacked).bin)) {
    const text = readFileSync(join(unpacked, path), 'utf8')
    assert.ok(text.startsWith('#!/usr/bin/env node\n'), `${path} lacks its first line`)
  }
}

export async function publint({ tarball }) {
  const { stdout } = await runScript('publint/src/cli.js', [tarball, '--strict'])
  assert.ok(stdout.includes('All good!'), stdout)
}

/** All resolution modes, no rule ignored. */
export async function attw({ tarball }) {
  const flags = ['--profile', 'strict', '--no-definitely-typed', '--format', 'ascii', '--no-color']
  await runScript('@arethetypeswrong/cli/dist/index.js', [tarball, ...flags])
}
