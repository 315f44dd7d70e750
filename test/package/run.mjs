// Checks the package as its users get it: packs it, looks inside, installs it elsewhere, runs and compiles against it.
// Needs the registry. `npm run test:package`; with --keep the temporary folder stays, with --outside only the check of a
// plugin that was moved out of the package is run.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileAll } from './compile.mjs'
import { checkWorkflow } from './cre-sdk.mjs'
import { checkInstalled } from './installed.mjs'
import { checkOutside } from './outside/outside.mjs'
import { installNodes, runAll } from './runtime.mjs'
import { checkSizes } from './sizes.mjs'
import { check, countFailures, createGate, install } from './steps.mjs'
import {
  attw,
  checkCommand,
  checkDeclarations,
  checkFiles,
  checkNames,
  pack,
  publint,
} from './tarball.mjs'

const started = performance.now()
const temp = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-package-')))
const keepsFolder = process.argv.includes('--keep')

function folder(name) {
  const path = join(temp, name)
  mkdirSync(path)
  return path
}

/** The Nodes to run on; none, where they could not be had, which is a failure of its own. */
async function findNodes() {
  let nodes = []
  await check('the Nodes install', async () => {
    nodes = await installNodes(folder('nodes'))
    return nodes.map(node => node.version).join(' ')
  })
  return nodes
}

async function checkOutsideAlone({ tarball }, checkGated) {
  const consumer = folder('consumer')
  writeFileSync(join(consumer, 'package.json'), '{ "private": true }')
  await install(consumer, [tarball])
  await checkOutside(consumer, checkGated)
}

async function checkAll(packed, checkGated, gate) {
  const nodes = findNodes()
  await Promise.all([
    checkGated('holds the build and the papers, nothing else', () => checkFiles(packed)),
    checkGated('shared files are named for sources', () => checkNames(packed)),
    checkGated('declarations name no package', () => checkDeclarations(packed)),
    checkGated('the command starts itself', () => checkCommand(packed)),
    runAll(packed, folder('runtime'), nodes, checkGated),
    compileAll(packed, folder, nodes, checkGated),
    gate(() => checkWorkflow(packed, folder('cre-sdk'))),
    checkGated('publint', () => publint(packed)),
    checkGated('attw', () => attw(packed)),
    checkGated('an installation takes at most a third of the official SDK’s', () =>
      checkInstalled(packed, folder),
    ),
    checkGated('every entry is within its budget', () => checkSizes(packed)),
  ])
}

const clean = () => keepsFolder || rmSync(temp, { recursive: true, force: true, maxRetries: 5 })
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    clean()
    process.exit(1)
  })
}

try {
  const packed = await pack(folder('packed'))
  const kB = bytes => `${(bytes / 1000).toFixed(1)} kB`
  console.log(`package: ${kB(packed.size)} packed, ${kB(packed.unpackedSize)} unpacked`)
  const gate = createGate(Math.max(2, cpus().length))
  const checkGated = (name, task) => gate(() => check(name, task))
  if (process.argv.includes('--outside')) await checkOutsideAlone(packed, checkGated)
  else await checkAll(packed, checkGated, gate)
} finally {
  clean()
}

const seconds = ((performance.now() - started) / 1000).toFixed(0)
const failures = countFailures()
console.log(
  failures === 0
    ? `package: all checks passed in ${seconds} s`
    : `package: ${failures} check${failures === 1 ? '' : 's'} failed, in ${seconds} s`,
)
if (keepsFolder) console.log(`kept: ${temp}`)
process.exitCode = failures === 0 ? 0 : 1
