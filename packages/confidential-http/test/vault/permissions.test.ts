import {
  chmodSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { boxKeys, type Health } from 'sluice/internal'
import { createKeys, readKeyFile, startEnclaveServer } from '../../index.js'
import { writeKeyFile } from '../../key-file.js'
import { createVault } from '../../vault/create-vault.js'
import { openVault } from '../../vault/open-vault.js'
import { startVaultHolder } from '../../vault/process/start-holder.js'
import type { Vault } from '../../vault/vault.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-permissions-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const at = (...parts: readonly string[]): string => join(folder, ...parts)
const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8)
const name = { key: 'apiKey' }

let vault: Vault
let count = 0
beforeEach(async () => {
  vault = await createVault(at(`vault-${++count}`))
  await vault.put(name, 'value', { policy: 'anywhere' })
})

/** What holder 0 answers when it is asked for its share of the secret. */
function release(of: Vault): Promise<unknown> {
  const secret = { ...name, namespace: 'main', owner: of.owner }
  return (of.holders[0] as Vault['holders'][number]).release(secret, boxKeys().publicKey)
}

const onPosix = process.platform === 'win32' ? describe.skip : describe

onPosix('a vault that others may touch', () => {
  test.each(['', 'shares', 'shares/1', 'manifests', 'secrets'])(
    'is not opened where others may write in its folder %j',
    async entry => {
      for (const mode of [0o770, 0o702, 0o777]) {
        chmodSync(join(vault.directory, entry), mode)
        expect(await failureOf(openVault(vault.directory))).toMatchObject({
          name: 'DataStreamsError',
          code: 'PERMISSIONS',
          message: expect.stringMatching(
            new RegExp(
              `${join(vault.directory, entry)} has the mode 0${mode.toString(8)}: others may write in it; make it 0700`,
            ),
          ),
        })
      }
      expect((await openVault(vault.directory, { insecurePermissions: true })).owner).toBe(
        vault.owner,
      )
      chmodSync(join(vault.directory, entry), 0o755)
      await openVault(vault.directory)
    },
  )

  test.each(['', 'shares', 'shares/1', 'manifests', 'secrets'])(
    'is not used any more once others may write in its folder %j, until that is mended',
    async entry => {
      const uses: readonly (() => Promise<unknown>)[] = [
        () => vault.current(),
        () => vault.list(),
        () => vault.put({ key: 'other' }, 'value', { policy: 'anywhere' }),
        () => vault.remove({ key: 'other' }),
      ]
      for (const use of uses) await use()
      const folder = join(vault.directory, entry)
      for (const mode of [0o770, 0o702, 0o777]) {
        chmodSync(folder, mode)
        for (const use of uses)
          expect(await failureOf(use())).toMatchObject({
            code: 'PERMISSIONS',
            message: expect.stringContaining(
              `${folder} has the mode 0${mode.toString(8)}: others may write in it`,
            ),
          })
      }
      const lax = await openVault(vault.directory, { insecurePermissions: true })
      await lax.current()
      for (const mode of [0o755, 0o700]) {
        chmodSync(folder, mode)
        for (const use of uses) await use()
      }
    },
  )

  test('is not used any more once anybody may replace its folder', async () => {
    const above = at(`above-${count}`)
    mkdirSync(above)
    const made = await createVault(join(above, 'vault'))
    chmodSync(above, 0o777)
    expect(await failureOf(made.current())).toMatchObject({ code: 'PERMISSIONS' })
    chmodSync(above, 0o1777)
    await made.current()
  })

  test('is told by the enclave and by the holder that use it', async () => {
    const [enclave, caller] = [createKeys(), createKeys()]
    const server = await startEnclaveServer({
      vault: vault.directory,
      secretKey: enclave.secretKey,
      callers: { [caller.publicKey]: vault.owner },
    })
    const directory = at(`holder-${count}`)
    const trust = { writer: vault.writerKey, callers: [] }
    const holder = await startVaultHolder({ directory, trust })
    try {
      mkdirSync(join(directory, 'shares'))
      const told = ({ health }: { readonly health: Health<string> }, cause: string) =>
        health.problems.find(each => each.cause === cause)?.message
      const [manifests, shares] = [join(vault.directory, 'manifests'), join(directory, 'shares')]
      for (const [mode, rule] of [
        [0o777, /0777: others may write in it/],
        [0o700, undefined],
      ] as const) {
        for (const folder of [manifests, shares]) chmodSync(folder, mode)
        await until(() => {
          const messages = [told(server, 'vault-unreadable'), told(holder, 'files-unreadable')]
          return messages.every(each =>
            rule === undefined ? each === undefined : rule.test(each ?? ''),
          )
        })
      }
    } finally {
      await server.close()
      await holder.close()
    }
  }, 60_000)

  test('is not opened, or made, below a folder where anybody may put another', async () => {
    const open = at(`open-${count}`)
    mkdirSync(open)
    chmodSync(open, 0o777)
    const code = {
      code: 'PERMISSIONS',
      message: expect.stringContaining(`${open} has the mode 0777`),
    }
    expect(await failureOf(createVault(join(open, 'vault')))).toMatchObject(code)
    expect(readdirSync(join(open, 'vault'))).toEqual([])
    const made = await createVault(join(open, 'vault'), { insecurePermissions: true })
    expect(await failureOf(openVault(made.directory))).toMatchObject(code)
    // Through a link it is the same folder.
    symlinkSync(made.directory, at(`link-${count}`))
    expect(await failureOf(openVault(at(`link-${count}`)))).toMatchObject(code)
    // In a folder such as /tmp, nobody can replace what is another's.
    chmodSync(open, 0o1777)
    await openVault(made.directory)
  })

  test('is not opened through a link in such a folder, however many links lead to it', async () => {
    const open = at(`open-${count}`)
    mkdirSync(open)
    symlinkSync(vault.directory, join(open, 'link'))
    symlinkSync(`open-${count}`, at(`first-${count}`))
    const through = at(`first-${count}`, 'link')
    chmodSync(open, 0o777)
    for (const path of [join(open, 'link'), through])
      expect(await failureOf(openVault(path))).toMatchObject({
        code: 'PERMISSIONS',
        message: expect.stringContaining(`${open} has the mode 0777: anybody may replace`),
      })
    await openVault(through, { insecurePermissions: true })
    chmodSync(open, 0o1777)
    await openVault(through)
  })

  test('is not opened where its folder of shares is a link into such a folder', async () => {
    const open = at(`open-${count}`)
    mkdirSync(open)
    renameSync(join(vault.directory, 'shares'), join(open, 'shares'))
    symlinkSync(join(open, 'shares'), join(vault.directory, 'shares'))
    await openVault(vault.directory)
    chmodSync(open, 0o777)
    expect(await failureOf(openVault(vault.directory))).toMatchObject({
      code: 'PERMISSIONS',
      message: expect.stringContaining(`${open} has the mode 0777`),
    })
  })

  const asRoot = process.getuid?.() === 0 ? test : test.skip
  asRoot('is not opened through a link of another user', async () => {
    const link = at(`link-${count}`)
    symlinkSync(vault.directory, link)
    lchownSync(link, 12_345, 12_345)
    const uid = jest.spyOn(process, 'getuid').mockReturnValue(54_321)
    try {
      expect(await failureOf(openVault(link))).toMatchObject({
        code: 'PERMISSIONS',
        message: expect.stringContaining(`${link} has the mode 0777: it belongs to another user`),
      })
      lchownSync(link, 0, 0)
    } finally {
      uid.mockRestore()
    }
    await openVault(link)
  })

  test('releases nothing with a share that others may read', async () => {
    const share = join(vault.directory, 'shares/1/0.json')
    await release(vault)
    for (const mode of [0o640, 0o604, 0o620]) {
      chmodSync(share, mode)
      expect(await failureOf(release(vault))).toMatchObject({
        code: 'PERMISSIONS',
        message: expect.stringMatching(
          /^shares\/1\/0\.json has the mode 06..: others may read or write .* make it 0600/,
        ),
      })
    }
    await release(await openVault(vault.directory, { insecurePermissions: true }))
    chmodSync(share, 0o400)
    await release(vault)
  })

  test('is not opened where others may read the share of any holder', async () => {
    for (const { index } of vault.holders) {
      const share = join(vault.directory, `shares/1/${index}.json`)
      for (const mode of [0o644, 0o640, 0o604]) {
        chmodSync(share, mode)
        expect(await failureOf(openVault(vault.directory))).toMatchObject({
          name: 'DataStreamsError',
          code: 'PERMISSIONS',
          message: expect.stringContaining(
            `shares/1/${index}.json has the mode 0${mode.toString(8)}`,
          ),
        })
      }
      await openVault(vault.directory, { insecurePermissions: true })
      chmodSync(share, 0o600)
    }
  })

  test('is opened where a share is missing, or a folder stands in its place', async () => {
    rmSync(join(vault.directory, 'shares/1/0.json'))
    rmSync(join(vault.directory, 'shares/1/1.json'))
    mkdirSync(join(vault.directory, 'shares/1/1.json'))
    expect((await openVault(vault.directory)).owner).toBe(vault.owner)
  })

  test('takes no ciphertext, and no manifest, that others may write', async () => {
    const folder = join(vault.directory, 'secrets', vault.owner, 'main')
    const secret = join(folder, readdirSync(folder)[0] as string)
    chmodSync(secret, 0o646)
    expect(await failureOf(release(vault))).toMatchObject({ code: 'PERMISSIONS' })
    chmodSync(secret, 0o644)
    await release(vault)
    for (const file of ['vault.json', 'manifests/2.json']) {
      chmodSync(join(vault.directory, file), 0o664)
      expect(await failureOf(openVault(vault.directory))).toMatchObject({ code: 'PERMISSIONS' })
      chmodSync(join(vault.directory, file), 0o600)
    }
    chmodSync(join(vault.directory, 'writer.json'), 0o640)
    expect(await failureOf(openVault(vault.directory))).toMatchObject({ code: 'PERMISSIONS' })
  })
})

onPosix('what is made', () => {
  test.each([0, 0o277])('is its owner’s alone under the umask %o, and works', async umask => {
    const [place, file] = [at(`made-${umask}`, 'deep', 'vault'), at(`${umask}.key`)]
    const before = process.umask(umask)
    try {
      const made = await createVault(place)
      await made.put(name, 'value', { policy: 'anywhere' })
      writeKeyFile(file, createKeys().secretKey)
    } finally {
      process.umask(before)
    }
    await release(await openVault(place))
    const modes = readdirSync(at(`made-${umask}`), { recursive: true, withFileTypes: true }).map(
      entry =>
        `${entry.isDirectory() ? 'folder' : 'file'} ${modeOf(join(entry.parentPath, entry.name))}`,
    )
    expect([...new Set(modes)].sort()).toEqual(['file 600', 'folder 700'])
    expect(modeOf(file)).toBe('600')
  })
})

onPosix('the file of a key', () => {
  test('is not read where others may read it', () => {
    const { secretKey } = createKeys()
    const file = at('some.key')
    writeFileSync(file, `${secretKey}\n`)
    chmodSync(file, 0o644)
    let thrown: unknown
    try {
      readKeyFile(file)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({
      code: 'PERMISSIONS',
      message: expect.stringContaining(`${file} has the mode 0644`),
    })
    expect(String(thrown)).not.toContain(secretKey)
    expect(readKeyFile(file, { insecurePermissions: true })).toBe(secretKey)
    chmodSync(file, 0o600)
    expect(readKeyFile(file)).toBe(secretKey)
  })

  test('is not read where anybody may replace it, or a link to it', () => {
    const { secretKey } = createKeys()
    for (const folder of ['keys', 'links']) mkdirSync(at(folder))
    writeFileSync(at('keys', 'some.key'), `${secretKey}\n`, { mode: 0o600 })
    symlinkSync('../keys/some.key', at('links', 'some.key'))
    for (const [folder, path] of [
      ['keys', at('keys', 'some.key')],
      ['keys', at('links', 'some.key')],
      ['links', at('links', 'some.key')],
      ['keys', relative(process.cwd(), at('keys', 'some.key'))],
    ] as const) {
      chmodSync(at(folder), 0o777)
      expect(() => readKeyFile(path)).toThrow(
        `${at(folder)} has the mode 0777: anybody may replace what is in it`,
      )
      expect(readKeyFile(path, { insecurePermissions: true })).toBe(secretKey)
      chmodSync(at(folder), 0o1777)
      expect(readKeyFile(path)).toBe(secretKey)
    }
  })
})
