import { type ChildProcess, spawn } from 'node:child_process'
import { built } from '@sluice/test-support/files.js'
import { faultyStack, type World } from './world.js'

/** The options of a caller's runtime: the only difference between the programs. */
export interface CallerText {
  readonly kind: 'local' | 'remote'
  readonly options: Readonly<Record<string, unknown>>
}

export function callerText(world: World, kind: CallerText['kind']): CallerText {
  const limits = { maxTimeout: 90_000, defaultTimeout: 90_000 }
  const { vault, enclaveURL: url, enclavePublicKey, callerSecretKey } = world
  return kind === 'local'
    ? { kind, options: { vault, stack: faultyStack, limits } }
    : { kind, options: { url, enclavePublicKey, callerSecretKey } }
}

/** A program's output, and its exit code. */
export interface Ran {
  readonly code: number | null
  readonly out: string
}

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/**
 * Runs a program on the built package, in a process of its own: it has `client`, `createRuntime(more)` and `given`, and
 * `input` of that.
 */
export function runProgram(
  body: string,
  given: CallerText & Readonly<Record<string, unknown>>,
  args: readonly string[] = [],
  format: 'cjs' | 'esm' = 'cjs',
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const path = JSON.stringify(built(`${format}/index.js`, 'confidential-http'))
  const program = `
    ${format === 'cjs' ? `const sluice = require(${path})` : `import * as sluice from ${path}`}
    const given = JSON.parse(process.env.GIVEN), { input } = given
    const client = new sluice.ConfidentialHTTPClient()
    const createRuntime = (more = {}) =>
      given.kind === 'local'
        ? sluice.createLocalRuntime({ ...given.options, ...more })
        : sluice.createRemoteRuntime({ ...given.options, ...more })
    ${body}
  `
  const type = format === 'cjs' ? [] : ['--input-type=module']
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...args, ...type, '-e', program], {
      env: { PATH: process.env.PATH, GIVEN: JSON.stringify(given), ...env },
    })
    let out = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        out += chunk
      })
    running.add(child)
    child.on('error', reject)
    child.on('close', code => {
      running.delete(child)
      resolve({ code, out })
    })
  })
}
