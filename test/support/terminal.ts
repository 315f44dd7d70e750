import { spawn, spawnSync } from 'node:child_process'
import { afterAll } from '@jest/globals'
import { command, type Ran } from './command.js'
import { until } from './waiting.js'

/** Whether the program `script` of Linux is there, which runs a command in a pseudo-terminal. */
export const hasTerminals: boolean =
  process.platform === 'linux' && spawnSync('script', ['--version']).status === 0
if (!hasTerminals) console.log('script is not installed: nothing is tested in a terminal')

const children = new Set<ReturnType<typeof spawn>>()
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

export interface TerminalOptions {
  /** The built program. @default `sluice` */
  readonly program?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** How wide the terminal is. @default 100 */
  readonly columns?: number
  /** Ctrl-C is pressed once this is on the screen. */
  readonly until?: RegExp
}

/** Runs `sluice`, or another program, with these arguments in a pseudo-terminal; `out` is all that it showed. */
export async function runInTerminal(
  args: readonly string[],
  { program = command, env = {}, cwd, columns = 100, until: shown }: TerminalOptions = {},
): Promise<Ran> {
  const words = [process.execPath, program, ...args].map(word => `'${word}'`)
  const child = spawn(
    'script',
    ['-qfec', `stty cols ${columns} rows 30; exec ${words.join(' ')}`, '/dev/null'],
    { cwd, env: { PATH: process.env.PATH ?? '', TERM: 'xterm', ...env } },
  )
  children.add(child)
  let out = ''
  child.stdout.on('data', chunk => {
    out += chunk
  })
  const ended = new Promise<number | null>(resolve => child.on('close', resolve))
  if (shown !== undefined) {
    await until(() => shown.test(out) || child.exitCode !== null, 20_000)
    child.stdin.write('\x03')
  }
  const code = await ended
  children.delete(child)
  return { code, out, err: '' }
}
