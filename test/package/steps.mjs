// How the package's checks run: commands, named checks, and so many at a time.
import { execFile } from 'node:child_process'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

export { packages } from '../../build/packages.mjs'

/** The environment without what `npm run` adds to it, which would send an inner npm back to this folder. */
export const env = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^npm_(package|lifecycle|command|config_local_prefix)/.test(name),
  ),
)

/** Runs a command to its end. Rejects with all it printed unless it exits with 0. */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const settings = { cwd: root, env, timeout: 120_000, maxBuffer: 2 ** 26, ...options }
    const child = execFile(command, args, settings, (error, stdout, stderr) => {
      if (error === null) resolve({ stdout, stderr })
      else {
        const how = error.killed ? 'ran out of time' : `ended with ${error.code ?? error.signal}`
        const what = [basename(command), ...args].join(' ')
        reject(new Error(`${what} ${how}\n${stdout}${stderr}`.trimEnd()))
      }
    })
    child.stdin?.end()
  })
}

/** Runs a script of a package that is installed here. */
export const runScript = (path, args, options) =>
  run(process.execPath, [join(root, 'node_modules', path), ...args], options)

const npmScript = process.env.npm_execpath ?? ''
const isNpmScript = /^npm-cli\.c?js$/.test(basename(npmScript))

export function npm(args, options) {
  return isNpmScript
    ? run(process.execPath, [npmScript, ...args], options)
    : run('npm', args, { shell: process.platform === 'win32', ...options })
}

/** Installs packages into a folder. */
export function install(folder, packages) {
  const flags = ['--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error']
  return npm(['install', ...flags, ...packages], { cwd: folder, timeout: 240_000 })
}

/** Unpacks a tarball. Every system that Node runs on has tar. */
export const unpack = (tarball, folder) => run('tar', ['-xzf', tarball, '-C', folder])

let failures = 0
export const countFailures = () => failures

/** Runs one check and says how it went. A check may return a remark. */
export async function check(name, task) {
  const started = performance.now()
  const took = () => `${((performance.now() - started) / 1000).toFixed(1)} s`
  try {
    const remark = await task()
    console.log(`  ok    ${name}  (${took()})${remark === undefined ? '' : `  ${remark}`}`)
  } catch (error) {
    failures++
    console.log(`  FAIL  ${name}  (${took()})`)
    console.log(String(error?.message ?? error).replace(/^/gm, '        '))
  }
}

/** A gate that lets so many tasks run at a time. */
export function createGate(width) {
  const waiting = []
  let running = 0
  return async function pass(task) {
    if (running === width) await new Promise(resolve => waiting.push(resolve))
    else running++
    try {
      return await task()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
