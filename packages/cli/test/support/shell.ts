import { execFile } from 'node:child_process'
import { command, type Ran } from '@sluice/test-support/command.js'

/** Runs the built command by a line of the shell, in which `"$@"` stands for the command. */
export function runInShell(
  line: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const shell = ['-c', line, 'sh', process.execPath, command, ...args]
  return new Promise(resolve => {
    const child = execFile(
      'sh',
      shell,
      { env: { PATH: process.env.PATH ?? '', NO_COLOR: '1', ...env } },
      (_error, out, err) => resolve({ code: child.exitCode, out, err }),
    )
    child.stdin?.end()
  })
}
