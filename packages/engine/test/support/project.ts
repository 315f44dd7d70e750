// A user's project in a temporary folder, with the built packages.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(__dirname, '../../../..')

/** What a command in a project did. */
export interface Ran {
  /** The exit code; null if the command did not end in time. */
  readonly code: number | null
  /** All that it wrote, to stdout and stderr. */
  readonly out: string
  readonly ms: number
}

/** A project: its folder, and the way to run Node in it. */
export interface Project {
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ran>
  remove(): void
}

export const jestCLI: string = join(root, 'node_modules/jest/bin/jest.js')

/** Makes a project of these files. */
export function makeProject(files: Readonly<Record<string, string>>): Project {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-engine-'))
  mkdirSync(join(folder, 'node_modules/@sluice'), { recursive: true })
  symlinkSync(root, join(folder, 'node_modules/sluice'), 'junction')
  const engine = join(root, 'packages/engine')
  symlinkSync(engine, join(folder, 'node_modules/@sluice/engine'), 'junction')
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return {
    run: (args, env = {}) => runNode(folder, args, env),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Milliseconds after which a command is killed. A run that hangs would go on for ever. */
const patience = 15_000

function runNode(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Ran> {
  const started = performance.now()
  return new Promise(resolve => {
    // Without the variables of the jest that runs this test.
    const child = spawn(process.execPath, args, {
      cwd,
      env: { PATH: process.env.PATH, ...env },
      detached: process.platform !== 'win32',
    })
    let out = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        out += chunk
      })
    // The test runner and the processes that it started.
    const guard = setTimeout(() => {
      if (process.platform === 'win32') child.kill('SIGKILL')
      else process.kill(-(child.pid as number), 'SIGKILL')
    }, patience)
    child.on('close', code => {
      clearTimeout(guard)
      resolve({ code, out, ms: performance.now() - started })
    })
  })
}
