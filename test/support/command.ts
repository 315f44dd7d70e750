import { type ChildProcess, spawn } from 'node:child_process'
import { afterAll } from '@jest/globals'
import { built } from './files.js'

/** The path of the built command. */
export const command: string = built('esm/sluice.js', 'cli')

/** The output of a command, and its exit code. */
export interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface Running {
  readonly child: ChildProcess
  /** Its output so far. */
  readonly output: { out: string; err: string }
  readonly ended: Promise<Ran>
  /** Waits until one of its outputs matches. Rejects, with both, where it ends before. */
  readonly shows: (pattern: RegExp) => Promise<void>
}

export interface CommandOptions {
  readonly cwd?: string | undefined
  /** The Node that runs it. @default this one */
  readonly node?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Standard input; null leaves it open. */
  readonly input?: string | Uint8Array | null | undefined
}

/** Waits until one of the outputs matches, or for the end. `watch` calls back after each output. */
export function untilShown(
  pattern: RegExp,
  output: Readonly<Running['output']>,
  ended: Promise<Ran>,
  watch: (look: () => void) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      if (pattern.test(output.out) || pattern.test(output.err)) resolve()
    }
    watch(look)
    look()
    ended.then(({ code, out, err }) => {
      look()
      reject(new Error(`it ended with ${code} and had not shown ${pattern}: ${out}${err}`))
    }, reject)
  })
}

const children = new Set<ChildProcess>()
// A command that should have failed would run on.
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

/** Starts `sluice` with these arguments. */
export function startCommand(
  args: readonly string[],
  { cwd, node = process.execPath, env = {}, input = '' }: CommandOptions = {},
): Running {
  const child = spawn(node, [command, ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? '', NO_COLOR: '1', ...env },
  })
  children.add(child)
  const output = { out: '', err: '' }
  child.stdout.on('data', chunk => {
    output.out += chunk
  })
  child.stderr.on('data', chunk => {
    output.err += chunk
  })
  child.stdin.on('error', () => undefined)
  if (input !== null) child.stdin.end(input)
  const ended = new Promise<Ran>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => {
      children.delete(child)
      resolve({ code, ...output })
    })
  })
  const watch = (look: () => void): void => {
    for (const stream of [child.stdout, child.stderr]) stream.on('data', look)
  }
  return { child, output, ended, shows: pattern => untilShown(pattern, output, ended, watch) }
}
