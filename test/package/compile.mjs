// Compiles a consumer against the tarball with the oldest TypeScript there is a promise for and with the newest, in
// every way they resolve modules; what the oldest made of it then runs on every Node.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, install, root, run } from './steps.mjs'

const consumer = join(root, 'test', 'package', 'consumer')

/** The compilers. */
const compilers = [
  { name: 'typescript@5.3', packages: ['typescript@~5.3.3', '@types/node@20'], isOld: true },
  { name: 'typescript@latest', packages: ['typescript@latest', '@types/node@20'], isOld: false },
]

const nats = ['jetstream', 'kv', 'transport-node'].map(name => `@nats-io/${name}@3`)

const formats = ['esm', 'cjs']

/** How modules are found, and which formats can be written so. */
const resolutions = [
  { name: 'nodenext', module: 'nodenext', formats },
  { name: 'bundler', module: 'esnext', formats: ['esm'] },
  // Newer compilers have dropped it.
  { name: 'node10', module: 'commonjs', formats: ['cjs'], isOldOnly: true },
]

/** The globals that the program uses. The engine needs Node, so its program is compiled with Node's types only. */
const platforms = [
  {
    name: 'node',
    files: ['program.ts', 'packages.ts', 'start.ts'],
    types: ['node'],
    lib: ['es2022'],
  },
  // The libraries of NATS have declarations that older compilers don't know.
  { name: 'node and NATS', files: ['nats.ts'], types: ['node'], lib: ['es2022'], isForeign: true },
  { name: 'dom', files: ['program.ts'], types: [], lib: ['es2022', 'dom', 'dom.iterable'] },
]

async function installConsumer(folder, packages, { tarballs }) {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  await install(folder, [...packages, ...nats, ...tarballs])
  for (const format of formats) {
    mkdirSync(join(folder, format))
    const type = format === 'esm' ? 'module' : 'commonjs'
    writeFileSync(join(folder, format, 'package.json'), `{ "type": "${type}" }`)
    for (const file of ['program.ts', 'packages.ts', 'nats.ts', 'start.ts'])
      copyFileSync(join(consumer, file), join(folder, format, file))
  }
}

async function compile(folder, resolution, platform, outDir) {
  const config = `tsconfig.${resolution.name}.${platform.name.replaceAll(' ', '-')}.json`
  const settings = {
    compilerOptions: {
      target: 'es2022',
      lib: [...platform.lib, 'esnext.disposable'],
      types: platform.types,
      module: resolution.module,
      moduleResolution: resolution.name,
      strict: true,
      skipLibCheck: platform.isForeign === true,
      noEmitOnError: true,
      ...(outDir === undefined ? { noEmit: true } : { rootDir: '.', outDir }),
    },
    files: resolution.formats.flatMap(format => platform.files.map(file => `${format}/${file}`)),
  }
  writeFileSync(join(folder, config), JSON.stringify(settings))
  const tsc = join(folder, 'node_modules', 'typescript', 'bin', 'tsc')
  const args = [tsc, '-p', config, '--pretty', 'false', '--listFiles']
  const { stdout } = await run(process.execPath, args, { cwd: folder }).catch(error => {
    throw new Error(error.message.replace(/^.*\.ts\r?(\n|$)/gm, ''))
  })
  const files = stdout.split(/\r?\n/)
  const format = resolution.formats[0]
  assert.ok(
    files.some(file => file.includes(`/node_modules/sluice/dist/${format}/index.d.ts`)),
    `it did not read the ${format} declarations`,
  )
  const foreign = files.filter(file =>
    /\/node_modules\/(?!sluice\/|typescript\/|@typescript\/)/.test(file),
  )
  const allowed =
    platform.name === 'dom' ? /^$/ : /\/(@types\/node|undici-types|@sluice|@nats-io)\//
  assert.deepEqual(
    foreign.filter(file => !allowed.test(file)),
    [],
  )
}

async function runCompiled(folder, node) {
  // The compiler's `await using` needs a symbol that Node has from 20.5 on.
  const symbols = join(folder, 'symbols.cjs')
  writeFileSync(symbols, "Symbol.asyncDispose ??= Symbol.for('Symbol.asyncDispose')\n")
  for (const format of formats) {
    copyFileSync(join(folder, format, 'package.json'), join(folder, 'out', format, 'package.json'))
    const args = ['--require', symbols, join('out', format, 'start.js')]
    const { stderr } = await run(node.path, args, { cwd: folder, timeout: 30_000 })
    assert.equal(stderr, '', 'it warns')
  }
}

async function compileWith({ name, packages, isOld }, folder, packed, nodes, checkGated) {
  let isInstalled = false
  await check(`${name}: installs`, async () => {
    await installConsumer(folder, packages, packed)
    isInstalled = true
    const tsc = join(folder, 'node_modules', 'typescript', 'bin', 'tsc')
    return (await run(process.execPath, [tsc, '--version'])).stdout.trim()
  })
  if (!isInstalled) return
  const runnable = isOld ? 'out' : undefined
  const tasks = resolutions
    .filter(resolution => isOld || resolution.isOldOnly !== true)
    .flatMap(resolution => platforms.map(platform => ({ resolution, platform })))
    // They have exports alone, which node10 doesn't read.
    .filter(({ resolution, platform }) => !(platform.isForeign && resolution.name === 'node10'))
    .map(({ resolution, platform }) => {
      const isRun = resolution.name === 'nodenext' && platform.name === 'node'
      return checkGated(`${name}: ${resolution.name}, types of ${platform.name}`, () =>
        compile(folder, resolution, platform, isRun ? runnable : undefined),
      )
    })
  await Promise.all(tasks)
  if (runnable === undefined) return
  await Promise.all(
    (await nodes).map(node =>
      checkGated(`${name}: its output runs on ${node.version}`, () => runCompiled(folder, node)),
    ),
  )
}

/** The checks, as soon as compilers and package are there. */
export async function compileAll(packed, folderOf, nodes, checkGated) {
  await Promise.all(
    compilers.map((compiler, index) =>
      compileWith(compiler, folderOf(`compiler-${index}`), packed, nodes, checkGated),
    ),
  )
}
