// Builds dist/esm and dist/cjs, one output file per source file, with declarations beside each.
// With --if-needed: installs and builds only what is missing or out of date.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(fileURLToPath(import.meta.url))
const at = (...parts) => join(root, ...parts)
const folders = ['core', 'plugins', 'presets', 'local', 'cli']

const sources = () => [
  'index.ts',
  ...folders
    .flatMap(folder => readdirSync(at(folder), { recursive: true }).map(file => join(folder, file)))
    .filter(file => file.endsWith('.ts')),
]

/** A digest of the named files: equal digests, equal build. */
function digest(files) {
  const hash = createHash('sha256')
  for (const file of files.sort())
    hash
      .update(`${file}\0`)
      .update(readFileSync(at(file)))
      .update('\0')
  return hash.digest('hex')
}

const stamped = (stamp, value) => existsSync(stamp) && readFileSync(stamp, 'utf8') === value

function installIfNeeded() {
  const stamp = at('node_modules', '.sluice-installed')
  const wanted = digest(['package-lock.json'])
  if (stamped(stamp, wanted)) return
  console.error('sluice: installing dependencies (npm ci)')
  execFileSync('npm', ['ci'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  writeFileSync(stamp, wanted)
}

async function build() {
  const { build: bundle } = await import('esbuild')
  rmSync(at('dist'), { recursive: true, force: true })
  const entryPoints = sources().map(file => at(file))
  const common = {
    entryPoints,
    outbase: root,
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
  }
  await bundle({ ...common, format: 'esm', outdir: at('dist/esm') })
  await bundle({
    ...common,
    format: 'cjs',
    outdir: at('dist/cjs'),
    supported: { 'dynamic-import': true },
  })
  execFileSync(
    process.execPath,
    [at('node_modules/typescript/bin/tsc'), '-p', at('tsconfig.build.json')],
    {
      cwd: root,
      stdio: 'inherit',
    },
  )
  // The declarations are the same for both formats; the nearest package.json says which one they describe.
  cpSync(at('dist/esm'), at('dist/cjs'), {
    recursive: true,
    filter: source => !/\.(js|json)$/.test(source),
  })
  mkdirSync(at('dist/cjs'), { recursive: true })
  writeFileSync(at('dist/esm/package.json'), '{ "type": "module", "sideEffects": false }\n')
  writeFileSync(at('dist/cjs/package.json'), '{ "type": "commonjs", "sideEffects": false }\n')
}

async function buildIfNeeded() {
  const stamp = at('dist', '.built')
  const wanted = digest([
    ...sources(),
    'build.mjs',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
  ])
  if (stamped(stamp, wanted)) return
  console.error('sluice: building dist')
  await build()
  writeFileSync(stamp, wanted)
}

if (process.argv.includes('--if-needed')) {
  installIfNeeded()
  await buildIfNeeded()
} else {
  await build()
  console.error(`sluice: built ${relative(process.cwd(), at('dist')) || 'dist'}`)
}
