// A user's project in a temporary folder, with the built packages.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(__dirname, '../../../..')

/** What a command in a project did. */
export interface Ran {
  /** The exit code; null if the command was killed. */
  readonly code: number | null
  /** All that it wrote, to stdout and stderr. */
  readonly out: string
}

/** A project: its folder, and the way to run Node in it. */
export interface Project {
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ran>
  /** Kills what still runs, and removes the folder. */
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
  const running = new Set<ChildProcess>()
  return {
    run: (args, env = {}) => runNode(running, folder, args, env),
    remove() {
      for (const child of running) {
        // The test runner and the processes that it started.
        if (process.platform === 'win32') child.kill('SIGKILL')
        else process.kill(-(child.pid as number), 'SIGKILL')
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function runNode(
  running: Set<ChildProcess>,
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    // Without the variables of the jest that runs this test.
    const child = spawn(process.execPath, args, {
      cwd,
      env: { PATH: process.env.PATH, ...env },
      detached: process.platform !== 'win32',
    })
    child.once('error', reject)
    child.once('spawn', () => running.add(child))
    let out = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        out += chunk
      })
    child.on('close', code => {
      running.delete(child)
      resolve({ code, out })
    })
  })
}
