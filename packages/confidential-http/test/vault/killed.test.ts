import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { built } from '@sluice/test-support/files.js'
import { inForm } from '@sluice/test-support/tier.js'
import { openVault } from '../../vault/open-vault.js'
import { nameOf, reveal, vault } from '../support/vault/vault.js'

interface Line {
  readonly begin?: string
  readonly done?: string
  readonly key: string
  readonly value: string
  readonly failed?: string
}

const KILLS = Number(process.env.VAULT_KILLS ?? inForm(1, 6))
/** Enough that each kind of change was begun. */
const MANY = 30
const program = join(__dirname, '../support/vault/vault-changes.cjs')

/** Runs the program for a random number of lines, and kills it. Returns what it has printed. */
async function runAndKill(round: number): Promise<readonly Line[]> {
  const child = spawn(
    process.execPath,
    [program, built('cjs/vault/index.js', 'confidential-http'), vault.directory, String(round)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  let text = ''
  // It goes on meanwhile: the signal comes at any moment of a change.
  const lines = 2 + Math.floor(Math.random() * 30)
  child.stdout.on('data', chunk => {
    text += chunk
    if (text.split('\n').length > lines) child.kill('SIGKILL')
  })
  const [code, signal] = await once(child, 'close')
  if (signal !== 'SIGKILL') throw new Error(`the program ended with ${code ?? signal}: ${text}`)
  return text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))
}

/** The values that a secret may have: undefined stands for none. */
type Possible = Map<string, ReadonlySet<string | undefined>>

function follow(possible: Possible, lines: readonly Line[]): void {
  for (const { begin, done, key, value, failed } of lines) {
    expect(failed).toBeUndefined()
    const after = (kind: string | undefined) =>
      kind === 'put' ? [value] : kind === 'rm' ? [undefined] : undefined
    const [mayBe, is] = [after(begin), after(done)]
    // What has begun may have been done; what is acknowledged has been.
    if (mayBe !== undefined) possible.set(key, new Set([...(possible.get(key) ?? []), ...mayBe]))
    if (is !== undefined) possible.set(key, new Set(is))
  }
}

test(`a vault that is changed by processes which are killed, ${KILLS} of them, loses nothing`, async () => {
  const possible: Possible = new Map(['a', 'b', 'c'].map(key => [key, new Set([undefined])]))
  const seen = join(vault.directory, '..', 'seen')
  const kinds = new Set<string>()
  for (let round = 0; round < KILLS; round++) {
    const lines = await runAndKill(round)
    for (const { begin } of lines) if (begin !== undefined) kinds.add(begin)
    follow(possible, lines)
    const opened = await openVault(vault.directory, { rollbackState: seen })
    expect(await opened.listDamaged()).toEqual([])
    const listed = new Set((await opened.list()).map(({ key }) => key))
    for (const [key, values] of possible) {
      const value = listed.has(key) ? await reveal(opened, nameOf(key)) : undefined
      expect([...values]).toContain(value)
      possible.set(key, new Set([value]))
    }
    const shares = readdirSync(join(vault.directory, 'shares', String(opened.generation)))
    expect(shares.filter(each => !each.startsWith('.'))).toHaveLength(opened.holders.length)
  }
  await vault.put({ key: 'a' }, 'after', { policy: 'anywhere' })
  expect(await reveal(vault, nameOf('a'))).toBe('after')
  if (KILLS >= MANY) expect([...kinds].sort()).toEqual(['put', 'reshare', 'rm', 'rotate'])
}, 300_000)
