// Checks the packages as their users get them: packs them, looks inside, installs them elsewhere together, runs and compiles against
// them.
// Needs the registry. `npm run test:package`; with --keep the temporary folder stays, with --outside only the check of a
// plugin that was moved out of the package is run, with --projects only what `npm create sluice` makes.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileAll } from './compile.mjs'
import { checkWorkflow } from './cre-sdk.mjs'
import { checkDemo } from './demo.mjs'
import { checkInstalled } from './installed.mjs'
import { checkOutside } from './outside/outside.mjs'
import { checkProjects } from './projects.mjs'
import { installNodes, runAll } from './runtime.mjs'
import { checkSizes } from './sizes.mjs'
import { check, countFailures, createGate, install } from './steps.mjs'
import {
  attw,
  checkCommand,
  checkDeclarations,
  checkFiles,
  checkNames,
  findDeadLinks,
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

async function checkOutsideAlone({ tarballs }, checkGated) {
  const consumer = folder('consumer')
  writeFileSync(join(consumer, 'package.json'), '{ "private": true }')
  await install(consumer, tarballs)
  await checkOutside(consumer, checkGated)
}

/** The packages that are commands, and have no entry to import. */
const commands = ['@sluice/cli', '@sluice/mcp', 'create-sluice']

async function checkAll(packed, checkGated, gate) {
  const nodes = findNodes()
  await check('the links of the pages lead somewhere', async () => {
    const dead = packed.all.flatMap(findDeadLinks)
    if (dead.length > 0) throw new Error(dead.join('\n'))
    return `${packed.all.length} packages`
  })
  await Promise.all([
    ...packed.all.flatMap(each => [
      checkGated(`${each.name}: holds the build and the papers, nothing else`, () =>
        checkFiles(each),
      ),
      checkGated(`${each.name}: shared files are named for sources`, () => checkNames(each)),
      checkGated(`${each.name}: declarations name no package`, () => checkDeclarations(each)),
      checkGated(`${each.name}: publint`, () => publint(each)),
    ]),
    ...packed.all
      .filter(({ name }) => !commands.includes(name))
      .map(each => checkGated(`${each.name}: attw`, () => attw(each))),
    ...packed.all
      .filter(({ name }) => commands.includes(name))
      .map(each => checkGated(`${each.name}: the command starts itself`, () => checkCommand(each))),
    checkProjects(packed, folder('projects'), checkGated),
    checkGated('npx runs the demo in an empty folder', () => checkDemo(packed, folder('demo'))),
    runAll(packed, folder('runtime'), nodes, checkGated),
    compileAll(packed, folder, nodes, checkGated),
    gate(() => checkWorkflow(packed, folder('cre-sdk'))),
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
  for (const { name, size, unpackedSize } of packed.all)
    console.log(`package: ${name} is ${kB(size)} packed, ${kB(unpackedSize)} unpacked`)
  const gate = createGate(Math.max(2, cpus().length))
  const checkGated = (name, task) => gate(() => check(name, task))
  if (process.argv.includes('--outside')) await checkOutsideAlone(packed, checkGated)
  else if (process.argv.includes('--projects'))
    await checkProjects(packed, folder('projects'), checkGated)
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
