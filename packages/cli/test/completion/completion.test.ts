import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runHere } from '../support/cli.js'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

const folder = mkdtempSync(join(tmpdir(), 'sluice-completion-'))
beforeAll(async () => {
  for (const shell of shells) {
    const { out } = await runHere(['completion', shell])
    writeFileSync(join(folder, shell), out)
  }
  writeFileSync(join(folder, 'reports.ndjson'), '')
})
afterAll(() => rmSync(folder, { recursive: true }))

const runFile = promisify(execFile)

/** What a shell offers at the end of a line, by its own machinery. */
async function offered(shell: Shell, line: string): Promise<readonly string[]> {
  const { stdout, stderr } = await runFile(shell, argsOf(shell, line), {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      TERM: 'dumb',
      OFFERS: join(folder, `offers ${line.replaceAll('/', '')}`),
    },
  })
  expect([shell, line, stderr]).toEqual([shell, line, ''])
  return stdout
    .split(/\r?\n/)
    .map(text => text.split('\t')[0]?.trim() ?? '')
    .filter(text => text !== '')
    .sort()
}

function argsOf(shell: Shell, line: string): readonly string[] {
  const words = line.split(' ')
  if (shell === 'fish')
    return ['--no-config', '-c', `source ./fish; complete -C ${JSON.stringify(line)}`]
  if (shell === 'bash')
    return [
      '--norc',
      '-c',
      `compopt() { :; }; source ./bash; COMP_WORDS=(${words.map(word => JSON.stringify(word)).join(' ')}); COMP_CWORD=${words.length - 1}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ]
  // Its functions run only where a line is edited: compadd is made to print what it was given.
  return ['-f', '-c', `${ZSH}\ncomplete_line ${JSON.stringify(line)}`]
}

const ZSH = `
zmodload zsh/zpty
complete_line() {
  zpty z zsh -f -i
  zpty -w z "PROMPT=; unsetopt beep; autoload -Uz compinit; compinit -u -D; source ./zsh"
  zpty -w z "zstyle ':completion:*' list-grouped false; zstyle ':completion:*' insert-tab false; setopt no_always_last_prompt; LISTMAX=10000"
  zpty -w z 'compadd() { local -a got; builtin compadd -O got "$@"; if [[ -n $got ]]; then printf "OFFER %s\\n" "\${got[@]}" >> "$OFFERS"; fi; builtin compadd "$@" }'
  zpty -w z $'echo READY'
  while zpty -r z text; do [[ $text == *READY* && $text != *echo* ]] && break; done
  zpty -w -n z "$1"$'\\t'
  local i; for i in {1..40}; do sleep 0.05; [[ -s $OFFERS ]] && break; done
  zpty -d z
  [[ -f $OFFERS ]] && sed 's/^OFFER //' "$OFFERS"
}
`

const expected: Readonly<Record<string, readonly string[]>> = {
  'sluice st': ['stream'],
  'sluice vault re': ['recover', 'reshare', 'restore', 'revoke'],
  'sluice audit v': ['verify'],
  'sluice serve --signers': ['--signers-out'],
  'sluice verify - --onc': ['--onchain'],
  'sluice latest ETH': ['ETH/USD'],
  'sluice completion ': ['bash', 'fish', 'zsh'],
}

const has = (shell: Shell): boolean => spawnSync(shell, ['--version']).status === 0

for (const shell of shells) {
  const testShell = has(shell) ? test : test.skip
  if (!has(shell)) console.log(`${shell} is not installed: its completion is not tested`)
  testShell(`${shell} completes commands, options, values and feeds`, async () => {
    const lines = Object.keys(expected)
    const found = await Promise.all(lines.map(line => offered(shell, line)))
    expect(Object.fromEntries(lines.map((line, index) => [line, found[index]]))).toEqual(expected)
  })
}
