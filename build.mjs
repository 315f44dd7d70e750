// Builds dist/esm and dist/cjs of the library and of each package: a file for each entry, and what entries have in common in shared/,
// once, with source maps.
// With --if-needed: installs and builds only what is missing or out of date, and says nothing when nothing is.
import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, posix } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findStrangers, packages as places } from './build/packages.mjs'

const root = dirname(fileURLToPath(import.meta.url))
const at = (...parts) => join(root, ...parts)
const exists = path => existsSync(at(path))
const say = message => console.error(`sluice: ${message}`)

/** The library stands at the root; its packages stand on it, and on those before them. */
const [library, ...packages] = Object.values(places)
const folders = [
  'core',
  'platform',
  'crypto',
  'report',
  'client',
  'plugins',
  'presets',
  'testing',
  ...packages,
]
/** Modules that find files beside them. */
const placed = { 'packages/cli': ['monitor/server'] }
const settings = [
  'build.mjs',
  'build/compile.mjs',
  'build/packages.mjs',
  'build/page.mjs',
  'build/pure.mjs',
  'package.json',
  ...packages.map(name => `${name}/package.json`),
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
]

/** A failure whose message is all there is to say. */
class BuildError extends Error {}

/** The files below a folder. (`readdir` is not recursive in Node 20.0.) */
function walk(folder) {
  return readdirSync(at(folder), { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (!entry.isDirectory()) return [path]
    return /^(dist.*|test|node_modules)$/.test(entry.name) ? [] : walk(path)
  })
}

function findSources() {
  const files = folders.filter(exists).flatMap(walk)
  return [
    'index.ts',
    'internal.ts',
    'official-sdk.ts',
    ...files.filter(file => /\.(ts|html|css|svg)$/.test(file)),
  ]
}

/** A digest of all that goes into a build: equal digests, equal builds. */
function digestInput() {
  const hash = createHash('sha256')
  for (const file of [...findSources(), ...settings].sort()) {
    hash.update(`${file}\0`)
    hash.update(readFileSync(at(file)))
    hash.update('\0')
  }
  return hash.digest('hex')
}

/** Whether node_modules holds what package-lock.json asks for. Packages for other platforms may be absent. */
function isInstalled() {
  if (!exists('node_modules/.package-lock.json')) return false
  const [wanted, installed] = ['package-lock.json', 'node_modules/.package-lock.json'].map(
    file => JSON.parse(readFileSync(at(file), 'utf8')).packages,
  )
  return Object.entries(wanted).every(([path, { version, optional }]) => {
    if (path === '') return true
    const found = installed[path]
    return found === undefined ? optional === true : found.version === version && exists(path)
  })
}

function install() {
  const strangers = findStrangers(root)
  if (strangers.length > 0) throw new BuildError(strangers.join('\n'))
  say('installing dependencies (npm ci)')
  const args = ['ci', '--include=dev', '--loglevel=error']
  const options = { cwd: root, stdio: ['ignore', process.stderr, process.stderr] }
  const npm = process.env.npm_execpath ?? ''
  const { status, error } = /^npm-cli\.c?js$/.test(basename(npm))
    ? spawnSync(process.execPath, [npm, ...args], options)
    : spawnSync('npm', args, { ...options, shell: process.platform === 'win32' })
  if (status !== 0) {
    throw new BuildError(`npm ci failed${error === undefined ? '' : `: ${error.message}`}`)
  }
}

const manifestOf = name => JSON.parse(readFileSync(at(name, 'package.json'), 'utf8'))
const sourceOf = file => file.replace(/^(?:\.\/)?dist\/(?:esm|cjs)\/(.+)\.js$/, '$1')

/** The entries that the manifest of a package tells of, as paths without an ending: `index`, `client/index`. */
function findEntries(name) {
  return Object.values(manifestOf(name).exports).flatMap(({ require }) =>
    require === undefined ? [] : [sourceOf(require)],
  )
}

/** The programs that a package installs: ES modules, whoever starts them. */
const findCommands = name => Object.values(manifestOf(name).bin ?? {}).map(sourceOf)

/** The modules of platform/ that have a form for the web. */
function findForms() {
  const web = walk('platform').filter(file => file.endsWith('.web.ts'))
  return web.map(file => file.replace(/\.web\.ts$/, ''))
}

/** Makes the modules of a package in a format. Returns the names of the packages that they carry a copy of. */
async function compile(name, entries, format, folder) {
  const modules = await import('./build/compile.mjs')
  const forms = name === library ? findForms().flatMap(form => [form, `${form}.web`]) : []
  try {
    return await modules.compile([...entries, ...forms], format, folder, at(name))
  } catch (error) {
    throw new BuildError(`${name}, ${format}: ${error.message}`)
  }
}

/** The licences of the packages that the build carries a copy of, each in its own words. */
function collectLicences(copied) {
  return [...copied]
    .sort()
    .map(name => {
      const folder = join('node_modules', name)
      const { version } = JSON.parse(readFileSync(at(folder, 'package.json'), 'utf8'))
      const file = readdirSync(at(folder)).find(each => /^licen[cs]e(\.\w+)?$/i.test(each))
      if (file === undefined) throw new BuildError(`${name} has no licence file`)
      return `${name} ${version}\n\n${readFileSync(at(folder, file), 'utf8').trim()}\n`
    })
    .join(`\n${'-'.repeat(80)}\n\n`)
}

function declare(outDir) {
  const tsc = at('node_modules', 'typescript', 'bin', 'tsc')
  const args = [tsc, '-p', at('tsconfig.build.json'), '--outDir', outDir, '--pretty', 'false']
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: root, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      if (error === null) resolve()
      else reject(new BuildError(`TypeScript found errors:\n${stdout}${stderr}`.trimEnd()))
    })
  })
}

/** The declarations that entries lead to, themselves among them. */
function findReached(types, entries) {
  const reached = new Set(entries)
  for (const path of reached) {
    const text = readFileSync(join(types, `${path}.d.ts`), 'utf8')
    // Not what a comment quotes.
    for (const [, from] of text.matchAll(/^(?! *\*).*(?:from |import\()['"](\..+)\.js['"]/gm))
      reached.add(join(dirname(path), from))
  }
  return reached
}

/** The declarations are the same for both formats: those of the ES modules pass on those of CommonJS. */
function placeDeclarations(types, entries, esm, cjs) {
  for (const path of findReached(types, entries))
    cpSync(join(types, `${path}.d.ts`), join(cjs, `${path}.d.ts`))
  for (const entry of entries) {
    const text = readFileSync(join(types, `${entry}.d.ts`), 'utf8')
    const up = `${'../'.repeat(entry.split('/').length)}cjs`
    // To Node, the default of a CommonJS module is all of it, and to a bundler it is not. So a default is declared once more.
    const declared = /^export default /m.test(text)
      ? text.replace(
          /((?:from |import\()['"])(\..+)(?=['"])/g,
          (_, from, path) => from + posix.join(up, dirname(entry), path),
        )
      : `export * from '${up}/${entry}.js'\n`
    writeFileSync(join(esm, `${entry}.d.ts`), declared)
  }
}

/** Builds a package into a folder; `types` has the declarations of all sources. */
async function buildPackage(name, folder, types) {
  const [esm, cjs] = ['esm', 'cjs'].map(format => join(folder, format))
  const [entries, commands] = [findEntries(name), findCommands(name)]
  const copied = await compile(name, [...entries, ...commands, ...(placed[name] ?? [])], 'es', esm)
  if (entries.length > 0) {
    await compile(name, entries, 'cjs', cjs)
    placeDeclarations(join(await types, name), entries, esm, cjs)
    writeFileSync(join(cjs, 'package.json'), describeCommonJS(name))
  }
  if (name === 'packages/cli') {
    const { buildPage } = await import('./build/page.mjs')
    await buildPage(join(esm, 'monitor', 'page'))
    copied.add('uplot')
  }
  for (const command of commands) chmodSync(join(esm, `${command}.js`), 0o755)
  if (copied.size > 0) writeFileSync(join(folder, 'THIRD-PARTY-LICENSES'), collectLicences(copied))
}

/**
 * The nearest package.json says which format a file is of. In this one a bundler for browsers reads which files have a form for
 * the web; jest with jsdom does not, and so gets those for Node, which it runs on. ES modules have `imports` for that.
 */
function describeCommonJS(name) {
  const browser = Object.fromEntries(findForms().map(form => [`./${form}.js`, `./${form}.web.js`]))
  const manifest = {
    type: 'commonjs',
    // The program of a thread is imported for what it does.
    sideEffects: name === library && ['./plugins/verify/thread.js'],
    ...(name === library && { browser }),
  }
  return `${JSON.stringify(manifest, undefined, 2)}\n`
}

/** Builds beside each dist, then changes places with it, so that nobody sees half a build. */
async function build(input) {
  const all = [library, ...packages]
  const [made, old, types] = ['new', 'old', 'types'].map(what => `dist.${what}-${process.pid}`)
  try {
    const declared = declare(at(types)).then(() => at(types))
    const tasks = all.map(name => buildPackage(name, at(name, made), declared))
    for (const { reason } of await Promise.allSettled([declared, ...tasks]))
      if (reason !== undefined) throw reason
    for (const name of all) {
      if (exists(join(name, 'dist'))) await move(at(name, 'dist'), at(name, old))
      await move(at(name, made), at(name, 'dist'))
    }
    writeFileSync(at('dist', '.built'), input)
  } finally {
    for (const name of all)
      for (const left of readdirSync(at(name)).filter(each => /^dist\.\w+-\d+$/.test(each)))
        rmSync(at(name, left), { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Windows refuses to move a folder while a file in it is open. */
async function move(from, to) {
  for (let attempt = 1; ; attempt++) {
    try {
      renameSync(from, to)
      return
    } catch (error) {
      if (attempt === 20 || !['EPERM', 'EACCES', 'EBUSY'].includes(error.code)) throw error
      await sleep(100)
    }
  }
}

const isBuilt = input =>
  [library, ...packages].every(name => exists(join(name, 'dist'))) &&
  exists('dist/.built') &&
  readFileSync(at('dist/.built'), 'utf8') === input

const lock = at('dist.lock')

/** Runs a task while no other process runs one in this folder. */
async function alone(task) {
  for (let attempt = 1; !takeLock(); attempt++) {
    if (attempt === 10) say('waiting for another build to end')
    await sleep(200)
  }
  try {
    await task()
  } finally {
    rmSync(lock, { force: true })
  }
}

function takeLock() {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (isAbandoned()) rmSync(lock, { force: true })
    return false
  }
}

function isAbandoned() {
  try {
    const age = Date.now() - statSync(lock).mtimeMs
    const owner = Number(readFileSync(lock, 'utf8'))
    if (owner === 0) return age > 5000
    process.kill(owner, 0)
    return age > 900_000
  } catch (error) {
    return error.code === 'ESRCH'
  }
}

async function main() {
  const isForced = !process.argv.includes('--if-needed')
  if (!isForced && isInstalled() && isBuilt(digestInput())) return
  await alone(async function installAndBuild() {
    if (!isInstalled()) install()
    const input = digestInput()
    if (!isForced && isBuilt(input)) return
    say('building dist')
    await build(input)
  })
}

try {
  await main()
} catch (error) {
  if (!(error instanceof BuildError)) throw error
  say(`the build failed. ${error.message}`)
  process.exitCode = 1
}
