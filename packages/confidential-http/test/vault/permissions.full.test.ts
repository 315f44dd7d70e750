// The command obeys the rules of permissions.test.ts.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { command } from '@sluice/test-support/command.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-permissions-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const at = (...parts: readonly string[]): string => join(folder, ...parts)
const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8)

let vault: Vault
beforeAll(async () => {
  vault = await createVault(at('vault'))
  await vault.put({ key: 'apiKey' }, 'value', { policy: 'anywhere' })
})

const onPosix = process.platform === 'win32' ? describe.skip : describe

onPosix('the command', () => {
  test.each(['0', '0277'])('is its owner’s alone under the umask %s, and works', umask => {
    const run = (...args: readonly string[]) =>
      spawnSync(
        'sh',
        ['-c', `umask ${umask}; exec "$@"`, 'sh', process.execPath, command, ...args],
        {
          cwd: folder,
          encoding: 'utf8',
          input: 'value\n',
        },
      )
    const place = `made-${umask}/deep/vault`
    expect(run('vault', 'init', '--vault', place)).toMatchObject({ status: 0, stderr: '' })
    const put = run('vault', 'put', 'apiKey', '--anywhere', '--vault', place)
    expect(put).toMatchObject({ status: 0, stderr: '' })
    expect(run('keygen', `${umask}.key`)).toMatchObject({ status: 0, stderr: '' })
    const modes = readdirSync(at(`made-${umask}`), { recursive: true, withFileTypes: true }).map(
      entry =>
        `${entry.isDirectory() ? 'folder' : 'file'} ${modeOf(join(entry.parentPath, entry.name))}`,
    )
    expect([...new Set(modes)].sort()).toEqual(['file 600', 'folder 700'])
    expect(modeOf(at(`${umask}.key`))).toBe('600')
  })

  test('a key that others may read keeps sluice enclave from starting, unless told to go on', () => {
    const file = at('loose.key')
    writeFileSync(file, 'not a key\n')
    chmodSync(file, 0o640)
    const run = (...more: readonly string[]) =>
      spawnSync(
        process.execPath,
        [command, 'enclave', '--key', file, '--caller', 'x', '--vault', vault.directory, ...more],
        { encoding: 'utf8' },
      )
    const refused = run()
    expect(refused.status).toBe(1)
    expect(refused.stderr).toMatch(/loose\.key has the mode 0640: .*--insecure-permissions/)
    expect(run('--insecure-permissions').stderr).toMatch(/loose\.key must be 64 hexadecimal digits/)
  })

  test('does not open a vault whose share others may read', () => {
    chmodSync(join(vault.directory, 'shares/1/1.json'), 0o644)
    const run = (...args: readonly string[]) =>
      spawnSync(process.execPath, [command, ...args, '--vault', vault.directory], {
        encoding: 'utf8',
      })
    for (const args of [
      ['vault', 'list'],
      ['enclave', '--key', 'no.key', '--caller', 'x'],
    ]) {
      const { status, stdout, stderr } = run(...args)
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
      expect(stderr).toMatch(/shares\/1\/1\.json has the mode 0644: .*--insecure-permissions/)
    }
    expect(run('vault', 'list', '--insecure-permissions').status).toBe(0)
  })
})
