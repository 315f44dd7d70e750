// Test runners, with their environments, with real timers and with all of them faked. The official SDK runs the same tests:
// what it passes has to pass. And the environments of the engine, for jest and vitest.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run as runProcess } from '../package/steps.mjs'

/** Milliseconds for a test: the tests give up earlier, and say why. */
const TIMEOUT = 30_000

/** Runs a command whose exit code does not matter: the report that it writes does. */
async function runQuietly({ folder, service, programs = 'runners' }, timers, args) {
  const env = { ...process.env, ...service.env, TIMERS: timers }
  delete env.NODE_OPTIONS
  return runProcess(process.execPath, args, {
    cwd: join(folder, 'programs', programs),
    env,
  }).catch(error => ({ stdout: '', stderr: error.message }))
}

/** The tests in a report of jest's form, which vitest writes as well. */
async function readJSON(world, timers, args, output) {
  rmSync(output, { force: true })
  const { stderr } = await runQuietly(world, timers, args)
  let report
  try {
    report = JSON.parse(readFileSync(output, 'utf8'))
  } catch {
    throw new Error(stderr)
  }
  const [{ assertionResults, message }] = report.testResults
  if (assertionResults.length === 0) throw new Error(message)
  return assertionResults.map(({ title, duration, failureMessages }) => ({
    name: title,
    ms: duration ?? 0,
    error: failureMessages?.length > 0 ? failureMessages.join('\n') : undefined,
  }))
}

const jestArguments = (folder, config, output) => [
  join(folder, 'node_modules/jest/bin/jest.js'),
  ...['--config', config, '--ci', '--runInBand', '--json', `--outputFile=${output}`],
]

const vitestArguments = (folder, output) => [
  ...[join(folder, 'node_modules/vitest/vitest.mjs'), 'run', 'vitest.test.mjs'],
  ...['--reporter=json', `--outputFile=${output}`, `--testTimeout=${TIMEOUT}`],
]

function runJest(world, environment, timers) {
  const { folder } = world
  const output = join(folder, 'jest.json')
  const config = join(folder, 'jest.config.json')
  writeFileSync(
    config,
    JSON.stringify({
      rootDir: join(folder, 'programs', 'runners'),
      testMatch: ['**/jest.test.cjs'],
      transform: {},
      testEnvironment: environment,
      testTimeout: TIMEOUT,
    }),
  )
  const args = [...jestArguments(folder, config, output), '--forceExit']
  return readJSON(world, timers, args, output)
}

function runVitest(world, environment, timers) {
  const { folder } = world
  const output = join(folder, 'vitest.json')
  const args = [
    ...vitestArguments(folder, output),
    // happy-dom has the settings of docs/records/hosts.md.
    ...(environment === 'happy-dom'
      ? [`--config=${join(folder, 'programs/docs/vitest.config.mjs')}`, '--root=.']
      : [`--environment=${environment}`]),
  ]
  return readJSON(world, timers, args, output)
}

async function runNodeTest(world, timers) {
  const flags = ['--test', '--test-reporter=tap', `--test-timeout=${3 * TIMEOUT}`]
  const { stdout, stderr } = await runQuietly(world, timers, [...flags, 'node-test.mjs'])
  const text = stdout || stderr
  const tests = [...text.matchAll(/^ *(not ok|ok) \d+ - (\w+: \w+)\n([\s\S]*?)\n *\.\.\.$/gm)]
  if (tests.length === 0) throw new Error(text)
  return tests.map(([, result, name, details]) => ({
    name,
    ms: Math.round(Number(/duration_ms: ([\d.]+)/.exec(details)?.[1])),
    error: result === 'ok' ? undefined : details,
  }))
}

const notRun = { error: 'it was not run' }

/** The tests of an environment of the engine, which have their own engine: they ask no service. */
async function addEngine(step, world, argumentsOf) {
  const { folder } = world
  const output = join(folder, 'engine.json')
  let results = []
  let failure
  try {
    const inEngine = { ...world, programs: 'engine' }
    results = await readJSON(inEngine, 'real', argumentsOf(folder, output), output)
  } catch (error) {
    failure = error
  }
  for (const what of ['options', 'request', 'fake timers']) {
    const { ms, error } = results.find(({ name }) => name === `engine: ${what}`) ?? notRun
    async function task() {
      if (failure !== undefined) throw failure
      if (error !== undefined) throw new Error(error)
    }
    await step(`@sluice/engine: ${what}`, task, { ms })
  }
}

/** The steps of a run with real timers, and of one with all of them faked. */
async function add(step, name, run) {
  for (const timers of ['real', 'faked']) {
    const title = `${name}, ${timers} timers`
    let results = []
    let failure
    try {
      results = await run(timers)
    } catch (error) {
      failure = error
    }
    const resultOf = name => results.find(test => test.name === name) ?? notRun
    for (const what of ['decode', 'request', 'stream']) {
      const { ms, error } = resultOf(`sluice: ${what}`)
      async function task() {
        if (failure !== undefined) throw failure
        if (error !== undefined) throw new Error(error)
      }
      await step(`${title}: ${what}`, task, { ms, official: resultOf(`official: ${what}`) })
    }
  }
}

export const hosts = {
  async jest(world, step) {
    for (const environment of ['node', 'jsdom'])
      await add(step, environment, timers => runJest(world, environment, timers))
    await addEngine(step, world, (folder, output) =>
      jestArguments(folder, 'jest.config.cjs', output),
    )
  },
  async vitest(world, step) {
    for (const environment of ['node', 'jsdom', 'happy-dom'])
      await add(step, environment, timers => runVitest(world, environment, timers))
    await addEngine(step, world, vitestArguments)
  },
  async 'node-test'(world, step) {
    await add(step, 'node', timers => runNodeTest(world, timers))
  },
}
