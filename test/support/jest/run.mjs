// Runs jest in a process of its own: every script of tests does so by this function.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const jest = join(root, 'node_modules/jest/bin/jest.js')
/**
 * Options of V8, which workers inherit: it collects garbage less often, and optimizes a function after more calls, since most tests call
 * each a few times. The second takes a tenth off the processor time.
 */
const engine = ['--max-semi-space-size=64', '--interrupt-budget=400000']

/**
 * Runs jest, and prints how long it took, with the slowest files. Resolves with the exit code. `env` is added to the environment. With
 * `--detect`, jest runs one file after the other, and names what keeps a worker alive.
 */
export async function runJest(args, env = {}) {
  const isCI = process.env.CI !== undefined
  // A program that a test has left running keeps jest waiting, and so shows itself. In CI, where nobody looks, jest ends all the
  // same, and what its process group still holds is ended with it.
  const hasGroup = isCI && process.platform !== 'win32'
  const other = args.find(each => /\.(full|nats|servers)\.test\.ts$/.test(each))
  if (other !== undefined && env.TEST_FULL === undefined && process.env.TEST_FULL === undefined)
    console.log(`${other} is not of this tier: npm run test:full -- ${other}`)
  const detects = args.includes('--detect')
  const given = args.map(each => (each === '--detect' ? '--detectOpenHandles' : each))
  if (isCI || detects) given.unshift('--forceExit')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-times-'))
  const times = join(folder, 'times.tsv')
  const begin = performance.now()
  const child = spawn(process.execPath, [...engine, jest, ...given], {
    cwd: root,
    env: { ...process.env, ...env, TEST_TIMES: times },
    stdio: 'inherit',
    detached: hasGroup,
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.once(signal, () => {
      if (hasGroup) endGroup(child.pid)
      else child.kill(signal)
      rmSync(folder, { recursive: true, force: true })
      process.exit(1)
    })
  const [code] = await once(child, 'exit')
  if (hasGroup) endGroup(child.pid)
  tellTimes(times, performance.now() - begin)
  rmSync(folder, { recursive: true })
  return code ?? 1
}

/** Prints the time of all tests, and the ten files that took most of the processor's. */
function tellTimes(path, ms) {
  const files = new Map()
  for (const line of read(path).split('\n').filter(Boolean)) {
    const [name, clock, cpu] = line.split('\t')
    const [clocks = 0, cpus = 0] = files.get(name) ?? []
    files.set(name, [clocks + Number(clock), cpus + Number(cpu)])
  }
  const loading = files.get('loading')?.[1] ?? 0
  files.delete('loading')
  const seconds = time => (time / 1000).toFixed(1).padStart(6)
  const cpu = cpuOfChildren()
  const all = cpu === undefined ? '' : `,${seconds(cpu)} s of processor time`
  console.log(
    `\nall tests:${seconds(ms)} s${all}, of which${seconds(loading)} s to load what they test`,
  )
  const slowest = [...files].sort(([, a], [, b]) => b[1] - a[1]).slice(0, 10)
  if (files.size > 1)
    console.log('the slowest files, by processor time and by the clock, in seconds:')
  if (files.size > 1)
    for (const [name, [clock, time]] of slowest)
      console.log(`${seconds(time)} ${seconds(clock)}  ${name}`)
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The processor time of the processes that this one has started, and of theirs, in milliseconds, where the system says it. */
function cpuOfChildren() {
  const fields = read('/proc/self/stat').split(') ').at(-1)?.split(' ') ?? []
  return fields.length < 15 ? undefined : 10 * (Number(fields[13]) + Number(fields[14]))
}

/** Ends the processes of a group. */
function endGroup(id) {
  try {
    process.kill(-id, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}
