// What a newcomer does with `npm create sluice`: two commands in an empty folder, for each kind of project.
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { env, npm } from './steps.mjs'

/** The function of `sluice/testing` that the test of each kind needs. An app needs none. */
const needed = { app: '', plugin: 'testPlugin', decoder: 'testDecoder', store: 'testCursorStore' }

/** The kinds whose function the packed library has. */
function findKinds(unpacked) {
  const kit = join(unpacked, 'dist/cjs/testing/index.d.ts')
  const names = existsSync(kit) ? readFileSync(kit, 'utf8') : ''
  return Object.keys(needed).filter(kind => names.includes(needed[kind]))
}

/** The two commands: the first makes a project and installs it, the second compiles and tests it. */
async function checkProject(kind, { folder, tarball, packages, env }) {
  const name = `my-${kind}`
  const options = { cwd: folder, env, timeout: 240_000 }
  const program = ['create-sluice', name, '--kind', kind, '--packages', packages]
  await npm(['exec', '--yes', `--package=${tarball}`, '--', ...program], options)
  const { stdout } = await npm(['test', '--prefix', name], options)
  // Newer Nodes write a sign of their own.
  const [passed] = /(?<=^[#ℹ] )pass [1-9]\d*$/m.exec(stdout) ?? []
  assert.ok(passed, stdout)
  const lock = JSON.parse(readFileSync(join(folder, name, 'package-lock.json'), 'utf8'))
  return `${passed}, ${Object.keys(lock.packages).length - 1} packages`
}

/**
 * Checks each kind, one after the other: they share a cache of npm, so typescript is fetched once,
 * and npm unpacks the program once.
 */
export async function checkProjects({ all, unpacked }, folder, checkGated) {
  const packages = join(folder, 'packed')
  mkdirSync(packages)
  for (const { tarball } of all) copyFileSync(tarball, join(packages, basename(tarball)))
  const { tarball } = all.find(({ name }) => name === 'create-sluice')
  const own = { ...env, npm_config_cache: join(folder, 'cache') }
  for (const kind of findKinds(unpacked))
    await checkGated(`two commands make a project of the kind ${kind}, and test it`, () =>
      checkProject(kind, { folder, tarball, packages, env: own }),
    )
}
