// Packs the package and looks at what is in it.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { isOfCopied } from '../../build/compile.mjs'
import { npm, root, runScript, unpack } from './steps.mjs'

const readManifest = unpacked => JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8'))

/** Packs into a folder: the tarball, its size, the files in it, and where it lies unpacked. */
export async function pack(folder) {
  const flags = ['--ignore-scripts', '--json', '--loglevel=error', '--pack-destination', folder]
  const { stdout } = await npm(['pack', ...flags])
  const report = JSON.parse(stdout)
  // npm 12 answers with an object by package name.
  const [packed] = Array.isArray(report) ? report : Object.values(report)
  const tarball = join(folder, packed.filename)
  await unpack(tarball, folder)
  return {
    tarball,
    unpacked: join(folder, 'package'),
    size: packed.size,
    unpackedSize: packed.unpackedSize,
    files: packed.files.map(file => file.path),
  }
}

/** The files of ours that a file leads to: its imports, the programs it starts, and its source map. */
function filesFrom(file, text) {
  if (!/\.(js|d\.ts)$/.test(file)) return []
  const isDeclaration = file.endsWith('.d.ts')
  // Comments may quote an import.
  const code = isDeclaration ? text.replace(/^ *\*.*$/gm, '') : text
  const imports = [...code.matchAll(/\b(?:from|import|require) *\(?["'](\.[^"']+)["']/g)]
  const forms = [...code.matchAll(/["']#(platform\/[\w-]+)["']/g)]
  const threads = [...code.matchAll(/\b(?:threadFile|startThread)\)?\(["']([^"']+\.js)["'][,)]/g)]
  const maps = [...code.matchAll(/^\/\/# sourceMappingURL=(.+)$/gm)]
  const programs = [...code.matchAll(/\bnew URL\(["']([^"']+\.js)["'], import\.meta\.url\)/g)]
  return [
    ...[...imports, ...programs].map(([, path]) => {
      const found = posix.join(posix.dirname(file), path)
      return isDeclaration ? found.replace(/js$/, 'd.ts') : found
    }),
    ...maps.map(([, path]) => posix.join(posix.dirname(file), path)),
    ...threads.map(([, path]) => posix.join(...file.split('/', 2), path)),
    ...forms.flatMap(([, path]) =>
      ['.js', '.web.js'].map(ending => posix.join(...file.split('/', 2), `${path}${ending}`)),
    ),
  ]
}

/** What package.json names, all that leads to, and the papers; and nothing else. */
export function checkFiles({ files, unpacked }) {
  const { exports, bin } = readManifest(unpacked)
  const named = Object.values(exports).flatMap(entry =>
    typeof entry === 'string' ? [] : Object.values(entry).flatMap(Object.values),
  )
  const papers = [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'dist/THIRD-PARTY-LICENSES',
    // The page of the monitor, which no module imports.
    ...['icon.svg', 'index.html', 'page.css', 'page.js'].map(
      name => `dist/esm/cli/monitor/page/${name}`,
    ),
    'package.json',
  ]
  const format = 'dist/cjs/package.json'
  const { browser } = JSON.parse(readFileSync(join(unpacked, format), 'utf8'))
  const forTheWeb = Object.values(browser).map(path => posix.join('dist/cjs', path))
  const reached = new Set([
    ...papers,
    format,
    ...forTheWeb,
    bin.sluice,
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

/** A file that several entries share is named for a source, a folder, or a package that is copied, and not by a hash. */
export function checkNames({ files }) {
  const shared = files.flatMap(
    file => /^dist\/(?:esm|cjs)\/shared\/(.+)\.js$/.exec(file)?.[1] ?? [],
  )
  const isKnown = name => existsSync(join(root, `${name}.ts`)) || existsSync(join(root, name))
  const unknown = shared.filter(name => !isOfCopied(name) && !isKnown(name))
  assert.deepEqual(unknown, [])
  assert.ok(shared.length > 0, 'nothing is shared')
  return `${shared.length} shared files`
}

/** What is for a package speaks of its types. */
const peers = [
  ['dist/cjs/nats/', "'@nats-io/"],
  ['dist/cjs/gateway/options.d.ts', "'@nats-io/"],
  ['dist/cjs/plugins/opentelemetry.d.ts', "'@opentelemetry/api'"],
  ['dist/cjs/plugins/prometheus.d.ts', "'prom-client'"],
]

/** The other declarations name no package: a consumer needs no types but ours and the platform's. */
export function checkDeclarations({ files, unpacked }) {
  const isForeign = line =>
    /\bfrom\s+['"][^.]|\bimport\(['"][^.]|^import\s+['"][^.]|reference types=/.test(line)
  const foreign = files
    .filter(file => file.endsWith('.d.ts'))
    .flatMap(file =>
      readFileSync(join(unpacked, file), 'utf8')
        .split('\n')
        .filter(line => isForeign(line) && !/^\s*(\*|\/\/ )/.test(line))
        // What runs on the platform's own servers may speak of them.
        .filter(
          line => !(/\/(local|gateway|confidential-http)\//.test(file) && /['"]node:/.test(line)),
        )
        .filter(line => !peers.some(([path, name]) => file.startsWith(path) && line.includes(name)))
        .map(line => `${file}: ${line}`),
    )
  assert.deepEqual(foreign, [])
}

/** The command can be started by its own name. */
export function checkCommand({ unpacked }) {
  const { bin } = readManifest(unpacked)
  const text = readFileSync(join(unpacked, bin.sluice), 'utf8')
  assert.ok(text.startsWith('#!/usr/bin/env node\n'), `${bin.sluice} lacks its first line`)
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
