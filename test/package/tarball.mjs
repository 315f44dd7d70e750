// Packs the package and looks at what is in it.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { npm, root, runScript, unpack } from './steps.mjs'

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

function sourcesBelow(path) {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap(entry => {
    const inner = `${path}/${entry.name}`
    return entry.isDirectory() ? sourcesBelow(inner) : inner.endsWith('.ts') ? [inner] : []
  })
}

/** The build of every source file and the papers, and nothing else. */
export function checkFiles({ files }) {
  const library = [
    'index.ts',
    ...['core', 'tdh2', 'plugins', 'presets', 'local', 'cursors', 'confidential-http'].flatMap(
      sourcesBelow,
    ),
  ]
  const expected = [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'package.json',
    'dist/esm/package.json',
    'dist/cjs/package.json',
    ...library.flatMap(file =>
      ['esm', 'cjs'].flatMap(format =>
        ['js', 'd.ts'].map(ending => `dist/${format}/${file.replace(/ts$/, ending)}`),
      ),
    ),
    ...sourcesBelow('cli').map(file => `dist/esm/${file.replace(/ts$/, 'js')}`),
  ]
  const lacking = expected.filter(file => !files.includes(file))
  const extra = files.filter(file => !expected.includes(file))
  assert.deepEqual({ lacking, extra }, { lacking: [], extra: [] })
  return `${files.length} files`
}

/** The declarations name no package: a consumer needs no types but ours and the platform's. */
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
        .filter(line => !(/\/(local|confidential-http)\//.test(file) && /['"]node:/.test(line)))
        .map(line => `${file}: ${line}`),
    )
  assert.deepEqual(foreign, [])
}

/** The command can be started by its own name. */
export function checkCommand({ unpacked }) {
  const { bin } = JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8'))
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
