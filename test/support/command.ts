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
}

export interface CommandOptions {
  readonly cwd?: string | undefined
  /** The Node that runs it. @default this one */
  readonly node?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Standard input; null leaves it open. */
  readonly input?: string | Uint8Array | null | undefined
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
  const ended = new Promise<Ran>(resolve =>
    child.on('close', code => {
      children.delete(child)
      resolve({ code, ...output })
    }),
  )
  return { child, output, ended }
}
