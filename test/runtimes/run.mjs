// Runs the same steps on several runtimes, against engines in this process, and prints a table: npm run runtimes, or
// npm run runtimes -- NAME … for some of them.
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { printTable } from '../bench/table.mjs'
import { root, run } from '../package/steps.mjs'
import { readArguments } from '../support/arguments.mjs'
import { fetchRuntime, names } from './runtimes.mjs'
import { startWorld } from './world.mjs'

const { positionals } = readArguments(process.argv.slice(2), {
  name: 'runtimes',
  usage: `npm run runtimes -- [NAME …], where NAME is of ${names.join(', ')}`,
  options: {},
  check({ positionals }) {
    const unknown = positionals.find(name => !names.includes(name))
    return unknown && `there is no ${unknown}, but ${names.join(', ')}`
  },
})

/** A folder with the package in its node_modules, as if it were installed, and the program. */
function makeFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-runtimes-'))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'sluice'), { recursive: true })
  cpSync(join(root, 'dist'), join(modules, 'sluice', 'dist'), { recursive: true })
  copyFileSync(join(root, 'package.json'), join(modules, 'sluice', 'package.json'))
  for (const name of readdirSync(join(root, 'node_modules')))
    if (!name.startsWith('.') && !/^@?sluice$/.test(name))
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
  const manifest = { private: true, dependencies: { sluice: '*' } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  for (const file of ['program.mjs', 'steps.mjs'])
    copyFileSync(join(root, 'test', 'runtimes', file), join(folder, file))
  return folder
}

/** The results of the steps on a runtime, by the name of the step. */
async function runOn({ command, args }, folder) {
  const world = await startWorld()
  try {
    const program = [...args, 'program.mjs', world.url]
    const { stdout, stderr } = await run(command, program, { cwd: folder, timeout: 60_000 })
    const lines = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    return { steps: new Map(lines.map(line => [line.name, line])), stderr }
  } catch (error) {
    return { steps: new Map(), stderr: error.message }
  } finally {
    await world.close()
  }
}

const wanted = positionals.length > 0 ? positionals : names
const folder = makeFolder()
const results = []
try {
  for (const name of wanted) {
    const runtime = await fetchRuntime(name)
    results.push({ runtime, ...(await runOn(runtime, folder)) })
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

const steps = [...new Set(results.flatMap(({ steps }) => [...steps.keys()]))]
const cell = result =>
  result === undefined ? 'NOT RUN' : result.error ? 'FAILED' : `${result.ms} ms`
printTable(
  `${steps.length} steps`,
  results.map(({ runtime }) => runtime.name),
  steps.map((step, at) => [
    `${at + 1}. ${step}`,
    ...results.map(({ steps }) => cell(steps.get(step))),
  ]),
)
const STEPS = 13
for (const { runtime, steps, stderr } of results) {
  if (stderr !== '') console.log(`${runtime.name} says:\n${stderr}\n`)
  for (const { name, error } of steps.values())
    if (error !== undefined) console.log(`${runtime.name}, ${name}:\n${error}\n`)
  const passed = [...steps.values()].filter(({ error }) => error === undefined).length
  if (passed !== STEPS) process.exitCode = 1
}
console.log(process.exitCode === 1 ? 'runtimes: some steps failed' : 'runtimes: all steps passed')
