import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
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

/** A command in a pseudo-terminal. */
export interface InTerminal {
  /** All that it has shown so far. */
  readonly shown: () => string
  /** Waits until a condition holds. Rejects, with all that it has shown, where it ends before. */
  readonly until: (condition: () => boolean) => Promise<void>
  /** The pseudo-terminal's file: `/dev/pts/3`. */
  readonly tty: string
  /** The process of the command. */
  readonly pid: number
  /** Presses keys. */
  readonly press: (keys: string) => void
  /** Makes the terminal as wide and high as this. */
  readonly resize: (columns: number, rows: number) => void
  /** The settings of the terminal, as stty prints them. */
  readonly settings: () => string
  /** Waits until the command is suspended, and all that it had written is shown. */
  readonly suspended: () => Promise<void>
  /** Has a suspended command run again. */
  readonly resume: () => void
  readonly ended: Promise<Ran>
}

/** Starts `sluice`, or another program, in a pseudo-terminal. Its number of rows is 30. */
export async function startInTerminal(
  args: readonly string[],
  { program = command, env = {}, cwd, columns = 100 }: TerminalOptions = {},
): Promise<InTerminal> {
  const words = [process.execPath, program, ...args].map(word => `'${word}'`)
  const setUp = `stty cols ${columns} rows 30; echo "$$ $(tty)"`
  const child = spawn('script', ['-qfec', `${setUp}; exec ${words.join(' ')}`, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH ?? '', TERM: 'xterm', ...env },
  })
  children.add(child)
  let out = ''
  child.stdout.on('data', chunk => {
    out += chunk
  })
  child.stderr.on('data', chunk => {
    out += chunk
  })
  const ended = new Promise<Ran>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => {
      children.delete(child)
      resolve({ code, out: withoutFirst(out), err: '' })
    })
  })
  let end: Error | undefined
  ended.then(
    ({ code }) => {
      end = new Error(`it ended with ${code}: ${out}`)
    },
    error => {
      end = error
    },
  )
  async function untilOf(condition: () => boolean): Promise<void> {
    await until(() => condition() || end !== undefined)
    if (end !== undefined && !condition()) throw end
  }
  await untilOf(() => out.includes('\n'))
  const [, pid = '', tty = ''] = /^(\d+) (\S+)\r?\n/.exec(out) ?? []
  const stty = (...words: readonly string[]): string =>
    spawnSync('stty', ['-F', tty, ...words]).stdout.toString()
  return {
    shown: () => withoutFirst(out),
    until: untilOf,
    tty,
    pid: Number(pid),
    press: keys => void child.stdin.write(keys),
    resize: (columns, rows) => void stty('cols', String(columns), 'rows', String(rows)),
    settings: () => stty('-a'),
    async suspended() {
      // script suspends itself some time after its command. It has read all by then.
      for (const each of [Number(pid), Number(child.pid)])
        await untilOf(() => stateOf(each) === 'T')
      // What script has written is in the pipe, and read in the next turns.
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
    },
    resume() {
      child.kill('SIGCONT')
      process.kill(Number(pid), 'SIGCONT')
    },
    ended,
  }
}

/** The first line has the process and the terminal. */
function withoutFirst(out: string): string {
  return out.slice(out.indexOf('\n') + 1)
}

/**
 * Runs `sluice`, or another program, with these arguments in a pseudo-terminal; `out` is all that
 * it showed.
 */
export async function runInTerminal(
  args: readonly string[],
  options: TerminalOptions = {},
): Promise<Ran> {
  const { shown, until: untilOf, press, ended } = await startInTerminal(args, options)
  const { until: expected } = options
  if (expected !== undefined) {
    await untilOf(() => expected.test(shown()))
    press('\x03')
  }
  return ended
}

/** The state of a process in Linux: T is stopped. Undefined if the process has ended. */
export function stateOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0]
  } catch {
    return undefined
  }
}
