// The library and the packages that stand on it, and their one version. `npm run version:set -- 1.2.3` writes it wherever it
// stands; `findStrangers` says what asks for another version of ours. `sluice/internal` may change in any, so each asks for the very one; and npm would ask the registry for it, and install
// whatever has that name there.
import { execFileSync } from 'node:child_process'
import { readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

/** The folder of each, in the order in which they are published: none before what it asks for. */
export const packages = {
  sluice: '.',
  '@sluice/engine': 'packages/engine',
  '@sluice/confidential-http': 'packages/confidential-http',
  '@sluice/nats': 'packages/nats',
  '@sluice/sinks': 'packages/sinks',
  '@sluice/cli': 'packages/cli',
  '@sluice/mcp': 'packages/mcp',
  'create-sluice': 'packages/create-sluice',
}

const isOurs = name => /^(@sluice\/.+|(create-)?sluice)$/.test(name)
const kinds = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies']
const readJSON = path => JSON.parse(readFileSync(path, 'utf8'))
const writeJSON = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`)

/** What a manifest asks for of ours, but for the link of the root to itself: that is no version. */
function findAsked(manifest) {
  return kinds.flatMap(kind =>
    Object.entries(manifest[kind] ?? {}).flatMap(([name, range]) =>
      isOurs(name) && range !== 'file:.' ? [{ kind, name, range }] : [],
    ),
  )
}

/** Each package.json, and what package-lock.json has of it, with a name for messages. */
function findManifests(root) {
  const lock = readJSON(join(root, 'package-lock.json'))
  const files = Object.values(packages).map(folder => {
    const path = join(folder, 'package.json')
    return { what: path, path, manifest: readJSON(join(root, path)) }
  })
  const locked = Object.values(packages).map(folder => ({
    what: `package-lock.json, ${folder}`,
    manifest: lock.packages[folder === '.' ? '' : folder] ?? {},
  }))
  return { files, locked, lock }
}

/** What is not of the version of the root, a line each. */
export function findStrangers(root) {
  const { files, locked, lock } = findManifests(root)
  const { version } = files[0].manifest
  const [, inCode] =
    /VERSION = '(.+)'/.exec(readFileSync(join(root, 'core/version.ts'), 'utf8')) ?? []
  const here = [
    ...[...files, ...locked].map(({ what, manifest }) => [what, manifest.version]),
    ['package-lock.json', lock.version],
    ['core/version.ts', inCode],
  ]
  return [
    ...here.flatMap(([what, other]) =>
      other === version ? [] : [`${what}: the version is ${other}, and not ${version}`],
    ),
    ...[...files, ...locked].flatMap(({ what, manifest }) =>
      findAsked(manifest).flatMap(({ kind, name, range }) => {
        if (packages[name] === undefined) return [`${what}: ${kind} has ${name}, which is not here`]
        const isHere = range === version
        return isHere ? [] : [`${what}: ${kind} asks for ${name} ${range}, and here is ${version}`]
      }),
    ),
    ...Object.entries(lock.packages).flatMap(([path, { link }]) => {
      const [, name] = /^(?:.*\/)?node_modules\/(.+)$/.exec(path) ?? []
      const isStranger = name !== undefined && isOurs(name) && link !== true
      return isStranger ? [`package-lock.json: ${path} is no link to what is here`] : []
    }),
  ]
}

/** Sets the version of all, and of what they ask of each other. */
export function setVersion(root, version) {
  const { files, locked, lock } = findManifests(root)
  for (const { manifest } of [...files, ...locked]) {
    manifest.version = version
    for (const { kind, name } of findAsked(manifest)) manifest[kind][name] = version
  }
  lock.version = version
  for (const { path, manifest } of files) writeJSON(join(root, path), manifest)
  writeJSON(join(root, 'package-lock.json'), lock)
  const code = join(root, 'core/version.ts')
  const text = readFileSync(code, 'utf8')
  writeFileSync(code, text.replace(/VERSION = '.+'/, `VERSION = '${version}'`))
}

/**
 * How npm is told that a version is not final: it installs none of `next` that is not asked for. Others have no tag, so that
 * npm refuses one that is older than the newest.
 */
export const tagFlags = version => (version.includes('-') ? ['--tag', 'next'] : [])

/** Runs npm in a folder, and returns what it prints. What it throws has that, too. */
export function npm(args, cwd) {
  const shell = process.platform === 'win32'
  const stdio = ['ignore', 'pipe', 'pipe']
  return execFileSync('npm', args, { cwd, encoding: 'utf8', shell, stdio, maxBuffer: 2 ** 26 })
}

const usage = 'usage: npm run version:set -- 1.2.3'
const number = '(?:0|[1-9]\\d*)'
const part = `(?:${number}|\\d*[A-Za-z-][\\dA-Za-z-]*)`
const form = new RegExp(`^${number}\\.${number}\\.${number}(-${part}(\\.${part})*)?$`)

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1] ?? '.')).href) {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { check: { type: 'boolean' } },
  })
  if (!values.check) {
    const [version = '', ...others] = positionals
    if (!form.test(version) || others.length > 0) {
      console.error(usage)
      process.exit(2)
    }
    setVersion(root, version)
    console.log(`all are ${version}; CHANGELOG.md of each needs a section for it`)
  }
  const strangers = findStrangers(root)
  for (const line of strangers) console.error(line)
  if (strangers.length > 0) process.exitCode = 1
}
