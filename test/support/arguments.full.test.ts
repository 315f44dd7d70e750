import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'

const folder = mkdtempSync(join(tmpdir(), 'sluice-arguments-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function run(
  command: string,
  ...args: string[]
): { code: number | null; out: string; err: string } {
  const [program = '', ...before] = command.split(' ')
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(__dirname, '..', program, 'run.mjs'), ...before, ...args],
    // None of these does any work.
    { encoding: 'utf8', timeout: 10_000 },
  )
  return { code: status, out: stdout, err: stderr }
}

const nothing = join(folder, 'no-such-folder', 'figures.json')

test.each([
  ['faults', 'rows seed short ours-only at-once bound json markdown record'],
  ['faults soak', 'minutes every feeds seed slope json samples'],
  ['bench', 'sides json record'],
])(
  '%s: --help prints the options; one that is not there, or no file to write, is an error',
  (command, options) => {
    const help = run(command, '--help')
    expect(help).toMatchObject({ code: 0, err: '' })
    const printed = [...help.out.matchAll(/^ {2}--([\w-]+)/gm)].map(match => match[1])
    expect(printed).toEqual([...options.split(' '), 'help'])

    const unknown = run(command, '--nope')
    expect(unknown).toMatchObject({ code: 2, out: '' })
    expect(unknown.err).toContain("Unknown option '--nope'; --help tells")

    const named = run(command, 'nope')
    expect(named).toMatchObject({ code: 2, out: '' })
    expect(named.err).toContain('there is no nope')

    const unwritable = run(command, '--json', nothing)
    expect(unwritable).toMatchObject({ code: 2, out: '' })
    expect(unwritable.err).toContain('--json: ENOENT')
    expect(existsSync(join(folder, 'no-such-folder'))).toBe(false)
  },
)

test.each([
  ['faults', ['--markdown', folder], '--markdown: EISDIR'],
  ['faults', ['--seed', '1.5'], '--seed and --at-once must be whole'],
  ['faults', ['--bound', 'lost'], '--bound must be a name and a number'],
  ['faults soak', ['--seed', '1.5'], '--seed must be a whole number'],
  ['faults soak', ['--minutes', 'ten'], '--minutes must be a number above 0'],
  ['bench', ['--sides', 'go,perl'], '--sides must be of go,rust: there is no "perl"'],
  ['bench', ['--sides', ''], '--sides must be of go,rust: there is no ""'],
  ['bench', ['compare', 'A.json'], 'compare needs two files that --json wrote'],
  ['bench', ['compare', 'A.json', 'B.json', '--record'], '--record is of a run, not of compare'],
])('%s %j is refused: %s', (command, args, message) => {
  const { code, err } = run(command, ...args)
  expect([code, err]).toEqual([2, expect.stringContaining(message)])
})
