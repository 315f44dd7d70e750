// Publishes the tarballs in a folder, packed/ unless another is given: node build/publish.mjs [FOLDER]. All or none, as far as a
// registry allows that has no such thing: first each is looked up and tried, then they are published, none before what it
// asks for. One that is there already is left out, so that a run that was cut short can be repeated; where it is there
// with other contents nothing is published.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npm, packages, tagFlags } from './packages.mjs'

const folder = resolve(process.argv[2] ?? fileURLToPath(new URL('../packed', import.meta.url)))

/** A tarball, and what it is of. (Every system that Node runs on has tar.) */
function read(file) {
  const path = join(folder, file)
  const manifest = execFileSync('tar', ['-xzOf', path, 'package/package.json'], {
    encoding: 'utf8',
  })
  const { name, version } = JSON.parse(manifest)
  const digest = createHash('sha512').update(readFileSync(path)).digest('base64')
  return { path, name, version, integrity: `sha512-${digest}` }
}

/** The digest that the registry has of a version; undefined where it has none. */
function findPublished({ name, version }) {
  try {
    const text = npm(['view', `${name}@${version}`, 'dist.integrity', '--json'], folder)
    return text.trim() === '' ? undefined : [JSON.parse(text)].flat()[0]
  } catch (error) {
    if (/\bE404\b/.test(`${error.stdout}${error.stderr}`)) return undefined
    throw error
  }
}

function publish({ path, version }, ...flags) {
  const args = ['publish', path, '--access', 'public', '--ignore-scripts', ...tagFlags(version)]
  npm([...args, ...flags], folder)
}

function publishAll() {
  const found = readdirSync(folder).filter(file => file.endsWith('.tgz'))
  const tarballs = found.map(read)
  const names = Object.keys(packages)
  const ordered = names.flatMap(name => tarballs.filter(each => each.name === name))
  const versions = new Set(tarballs.map(({ version }) => version))
  if (ordered.length !== names.length || tarballs.length !== names.length || versions.size !== 1)
    throw new Error(`${folder} has not one tarball of each of ${names.join(', ')}, of one version`)

  const missing = ordered.filter(each => {
    const published = findPublished(each)
    if (published !== undefined && published !== each.integrity)
      throw new Error(`${each.name}@${each.version} is published already, with other contents`)
    return published === undefined
  })
  for (const each of missing) publish(each, '--dry-run')
  for (const each of ordered) {
    if (missing.includes(each)) publish(each)
    const what = missing.includes(each) ? 'published' : 'was there already'
    console.log(`${each.name}@${each.version} ${what}`)
  }
}

try {
  publishAll()
} catch (error) {
  console.error(`publish: ${error.stderr || error.message}`)
  process.exitCode = 1
}
