// Programs of a test that run in processes of their own, so that they can be killed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach } from '@jest/globals'
import { buildSync } from 'esbuild'

const root = join(__dirname, '../../../..')
// Within the repository, where packages are found.
const folder = join(root, 'node_modules/.cache', `sluice-sinks-${process.pid}`)
const running = new Set<ChildProcess>()

afterEach(async () => {
  const ended = [...running].map(child => once(child, 'close'))
  for (const child of running) child.kill('SIGKILL')
  await Promise.all(ended)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Compiles a program of this folder, with the sources that it imports. Returns its path. */
export function compileProgram(name: string): string {
  mkdirSync(folder, { recursive: true })
  const outfile = join(folder, `${name}.cjs`)
  buildSync({
    entryPoints: [join(__dirname, `${name}.ts`)],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    packages: 'external',
    tsconfig: join(root, 'tsconfig.json'),
    logLevel: 'error',
  })
  return outfile
}

/** A program that runs. */
export interface Program {
  readonly child: ChildProcess
  /** The lines that it has written so far. */
  readonly lines: readonly string[]
  /** Resolves with the next line that begins with `start`, or that there is already. */
  line(start: string): Promise<string>
  /** Resolves when it has ended: with its exit code or the signal. */
  readonly ended: Promise<number | NodeJS.Signals | null>
}

/** Runs a command that runs a program. */
export function runCommand(command: string, ...args: readonly string[]): Program {
  const child = spawn(command, args, { stdio: 'pipe' })
  running.add(child)
  const lines: string[] = []
  let rest = ''
  let errors = ''
  let hasEnded = false
  let wake: () => void = () => undefined
  child.stderr.on('data', (data: Buffer) => {
    errors += data
  })
  child.once('error', error => {
    errors += error.message
  })
  child.stdout.on('data', (data: Buffer) => {
    const parts = (rest + data).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
    wake()
  })
  const ended = new Promise<number | NodeJS.Signals | null>(resolve => {
    child.once('close', (code, signal) => {
      running.delete(child)
      hasEnded = true
      resolve(signal ?? code)
      wake()
    })
  })
  async function line(start: string): Promise<string> {
    for (;;) {
      const found = lines.find(each => each.startsWith(start))
      if (found !== undefined) return found
      if (hasEnded) {
        const end = child.signalCode ?? child.exitCode
        throw new Error(`ended (${end}) without a line ${start}: ${lines.join('; ')} ${errors}`)
      }
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
  }
  return { child, lines, line, ended }
}

/** Runs a compiled program. */
export const runProgram = (path: string, ...args: readonly string[]): Program =>
  runCommand(process.execPath, path, ...args)
