// Loading the default entry, and starting the command, in a new process each time; what an installation takes on disk; what a
// bundle weighs.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { budgets, entryFile, weigh, weighStart } from '../package/sizes.mjs'
import { npm, root } from '../package/steps.mjs'
import { alternate, ratio, spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const rounds = 15
const packages = { ours: 'sluice', official: '@chainlink/data-streams-sdk', ws: 'ws' }
const sides = Object.keys(packages)
const forms = {
  require: { goal: 0.25, flags: ['--input-type=commonjs'], load: name => `require('${name}')` },
  import: { goal: 0.3, flags: ['--input-type=module'], load: name => `await import('${name}')` },
}

/** Milliseconds a new Node takes to load a package, its own start not counted. */
function timeLoading({ flags, load }, side) {
  const program = `const start = performance.now(); ${load(packages[side])}; console.log(performance.now() - start)`
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, '-e', program], {
    cwd: root,
    encoding: 'utf8',
  })
  const took = Number.parseFloat(stdout)
  if (Number.isNaN(took)) throw new Error(`${program}: ${stderr}`)
  return took
}

const command = join(root, 'packages/cli/dist/esm/sluice.js')
const starts = {
  node: ['-e', '0'],
  version: [command, '--version'],
  help: [command, '--help'],
}
const startRounds = 20
/** A module that prints, at the end of its process, the microseconds that the process took of a processor. */
const meter = `data:text/javascript,${encodeURIComponent(
  "process.on('exit', () => { const { user, system } = process.cpuUsage(); process.stderr.write(String(user + system)) })",
)}`

/** Milliseconds of processor time that a process takes. */
function timeStart(args) {
  const { stderr } = spawnSync(process.execPath, ['--import', meter, ...args], { encoding: 'utf8' })
  const took = Number.parseFloat(stderr) / 1000
  if (Number.isNaN(took)) throw new Error(`${args.join(' ')}: ${stderr}`)
  return took
}

/** The folder that a package finds another one in. */
function resolve(from, name) {
  const folder = join(from, 'node_modules', name)
  if (existsSync(folder)) return folder
  if (dirname(from) === from) throw new Error(`${name} is not installed`)
  return resolve(dirname(from), name)
}

/** Bytes of a package's files, without those of packages within it. */
function bytesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return sum + (entry.name === 'node_modules' ? 0 : bytesIn(path))
    return sum + statSync(path).size
  }, 0)
}

/** The folders of all that a package depends on, itself not among them. */
function dependenciesOf(folder, found = new Set()) {
  const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) {
    const dependency = resolve(folder, name)
    if (found.has(dependency)) continue
    found.add(dependency)
    dependenciesOf(dependency, found)
  }
  return found
}

const sum = numbers => numbers.reduce((total, number) => total + number, 0)
const megabytes = bytes => `${(bytes / 1e6).toFixed(1)} MB`
const kilobytes = bytes => `${(bytes / 1000).toFixed(1)} kB`

async function measureInstallation() {
  const { stdout } = await npm(['pack', '--dry-run', '--ignore-scripts', '--json'])
  const report = JSON.parse(stdout)
  const [{ unpackedSize }] = Array.isArray(report) ? report : Object.values(report)
  const official = resolve(root, packages.official)
  const size = (own, folders) => own + sum([...folders].map(bytesIn))
  return {
    ours: size(unpackedSize, dependenciesOf(root)),
    official: size(bytesIn(official), dependenciesOf(official)),
    own: unpackedSize,
  }
}

const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** Ours for what most do not ask for: a bundler takes them only where they are installed. */
const optionalPeers = Object.keys(peerDependencies)

const exact = value => ({ median: value, min: value, max: value })

export default async function bench() {
  const loading = {}
  for (const [form, how] of Object.entries(forms))
    loading[form] = await alternate(sides, { rounds }, side => timeLoading(how, side))
  printTable(
    'ms to load',
    sides,
    Object.keys(forms).map(form => [
      form,
      ...sides.map(side => short(spread(loading[form][side]).median)),
    ]),
  )

  const started = await alternate(Object.keys(starts), { rounds: startRounds }, side =>
    timeStart(starts[side]),
  )

  const installed = await measureInstallation()
  const official = resolve(root, packages.official)
  const { main } = JSON.parse(readFileSync(join(official, 'package.json'), 'utf8'))
  const files = { ours: entryFile(root, '.'), official: join(official, main) }
  const start = { ours: await weighStart(files.ours), official: await weighStart(files.official) }
  const whole = {
    ours: await weigh(files.ours, 'bundle', optionalPeers),
    official: await weigh(files.official, 'bundle'),
  }
  const entries = Object.keys(budgets).filter(name => /^sluice(\/|$)/.test(name))
  const fileOf = name => entryFile(root, `.${name.slice('sluice'.length)}`)
  const weights = await Promise.all(entries.map(name => weigh(fileOf(name))))
  printTable(
    'gzipped, without dependencies',
    [''],
    entries.map((name, index) => [name, kilobytes(weights[index])]),
  )

  const loads = Object.entries(forms).map(([form, { goal }]) => {
    const { ours, official } = loading[form]
    const ms = list => `${short(spread(list).median)} ms`
    return {
      work: `time to load the default entry by \`${form}\`, compared with the official SDK`,
      ...atMost(goal, ratio(ours, official), ' times'),
      detail: `sluice ${ms(ours)}; the official SDK ${ms(official)}`,
    }
  })
  const startRows = ['version', 'help'].map(side => {
    const ms = list => `${short(spread(list).median)} ms`
    return {
      work: `processor time of \`sluice --${side}\`, compared with bare Node (\`node -e 0\`)`,
      ...atMost(1.6, ratio(started[side], started.node), ' times'),
      detail: `sluice ${ms(started[side])}; bare Node ${ms(started.node)}`,
    }
  })
  return [
    ...loads,
    ...startRows,
    {
      work: 'installed size with all dependencies, compared with the official SDK',
      ...atMost(0.333, exact(installed.ours / installed.official), ' times'),
      detail: `sluice ${megabytes(installed.ours)}, or ${megabytes(installed.own)} without dependencies; the official SDK ${megabytes(installed.official)}`,
    },
    {
      work: 'size of the part of the bundle that is loaded at first: default entry with all dependencies, minified and gzipped',
      ...atMost(40, exact(start.ours / 1000), ' kB'),
      detail: `${(start.ours / start.official).toFixed(3)} times the ${kilobytes(start.official)} of the official SDK`,
    },
    {
      work: 'size of the whole bundle of the default entry, with the parts that are loaded on demand; compared with the official SDK',
      ...atMost(undefined, exact(whole.ours / whole.official), ' times'),
      detail: `sluice ${kilobytes(whole.ours)}; the official SDK ${kilobytes(whole.official)}`,
    },
  ]
}
