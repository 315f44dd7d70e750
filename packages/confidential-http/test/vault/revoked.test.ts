// Keys that are revoked, and holders and vaults that are put back to a backup of before.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys, createKeys, createPermissions } from 'sluice/internal'
import { createVault } from '../../vault/create-vault.js'
import { VaultFolder } from '../../vault/files.js'
import { readWriter, type Writer } from '../../vault/identity.js'
import { readManifest, signManifest } from '../../vault/manifest.js'
import { openVault } from '../../vault/open-vault.js'
import { signOrder, signStep } from '../../vault/process/order.js'
import { askHolder } from '../../vault/process/protocol.js'
import type { Vault } from '../../vault/vault.js'
import {
  addressesOf,
  caller,
  type Holder,
  introduce,
  open,
  startHolder,
  startHolders,
  trust,
} from '../support/vault/holder-processes.js'
import { nameOf, place, reveal, VALUE, vault } from '../support/vault/vault.js'

const NAME = nameOf('key')
const PAIRS = [
  [0, 1],
  [0, 2],
  [1, 2],
]
const stolen = createKeys()
let holders: [Holder, Holder, Holder]
/** The writer, which is a caller too. */
let remote: Vault
/** The vault's directory before the revocation. */
let backup: string

beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  for (const { directory } of holders)
    trust(directory, { callers: [caller.publicKey, stolen.publicKey] })
  await vault.reshare({ addresses: addressesOf(holders) })
  remote = await open()
  backup = copyOf(vault.directory)
  for (const holder of holders) copyOf(holder.directory, `${holder.directory}.bak`)
})

function copyOf(directory: string, copy = place()): string {
  cpSync(directory, copy, { recursive: true, filter: path => !path.endsWith('.lock') })
  return copy
}

/** Puts a holder back to its backup. */
async function restore({ directory, stop, start }: Holder): Promise<void> {
  await stop()
  rmSync(directory, { recursive: true })
  copyOf(`${directory}.bak`, directory)
  await start()
}

/** What somebody gets with a key, a copy of the vault and two holders. */
async function gets(
  { secretKey }: { readonly secretKey: string },
  directory: string,
  pair?: readonly number[],
): Promise<string> {
  const opened = await openVault(directory, { callerSecretKey: secretKey })
  return reveal(opened, NAME, pair).catch((error: Error) => error.message)
}

const trusts = async (): Promise<readonly (string | undefined)[]> =>
  (await remote.status()).holders.map(({ trust: number, compared }) => `${number} ${compared}`)
const REVOKED = 'it says "the key of this caller is revoked"'

const writerOf = (): Promise<Writer> =>
  readWriter(new VaultFolder(vault.directory, createPermissions({})), vault.writerKey)

/** The text of a next manifest with these revoked keys, as a thief of the writer's key signs it. */
async function forged(revoked: readonly string[] | undefined): Promise<string> {
  const { sequence } = await remote.current()
  const read = readFileSync(join(vault.directory, 'manifests', `${sequence}.json`), 'utf8')
  const { text: _, digest, ...now } = readManifest(read.trimEnd(), vault.writerKey, 'a manifest')
  const history = [digest, ...now.history]
  const next = { ...now, sequence: sequence + 1, history, revoked }
  return signManifest(next, await writerOf()).text
}

describe('a revoked key', () => {
  test('gets nothing at once, also after a restart, and others go on', async () => {
    expect(await gets(stolen, vault.directory)).toBe(VALUE)
    expect(await trusts()).toEqual(['0 same', '0 same', '0 same'])
    expect(await remote.revoke(stolen.publicKey)).toEqual({ trust: 1, late: [] })
    expect(await trusts()).toEqual(['1 same', '1 same', '1 same'])
    for (const pair of PAIRS) {
      expect(await gets(stolen, vault.directory, pair)).toBe(REVOKED)
      expect(await gets(stolen, backup, pair)).toBe(REVOKED)
    }
    for (const { stop, start } of holders) {
      await stop()
      await start()
    }
    expect(await gets(stolen, vault.directory)).toBe(REVOKED)
    expect(await gets(caller, vault.directory)).toBe(VALUE)
    // A key that is revoked already makes no change.
    const { sequence } = await remote.current()
    expect(await remote.revoke(stolen.publicKey)).toEqual({ trust: 1, late: [] })
    expect((await remote.current()).sequence).toBe(sequence)
    // A later change keeps it.
    await remote.put({ key: 'key' }, 'new', { policy: 'anywhere' })
    await remote.reshare()
    expect(await gets(stolen, vault.directory)).toBe(REVOKED)
    expect(await gets(caller, vault.directory)).toBe('new')
  })

  test.each([0, 1, 2])(
    'gets nothing from a threshold with holder %i, which is put back to a backup',
    async at => {
      await remote.revoke(stolen.publicKey)
      const pairs = PAIRS.filter(pair => pair.includes(at))
      for (const directory of [backup, vault.directory])
        for (const pair of pairs) {
          await restore(holders[at] as Holder)
          expect(await gets(stolen, directory, pair)).toBe(REVOKED)
        }
      // A look at the holders finds the one that is behind, and brings it up to date.
      await restore(holders[at] as Holder)
      expect(await trusts()).toEqual([0, 1, 2].map(each => (each === at ? '0 behind' : '1 same')))
      expect(await trusts()).toEqual(['1 same', '1 same', '1 same'])
      for (const pair of pairs) expect(await gets(stolen, backup, pair)).toBe(REVOKED)
      expect(await gets(caller, vault.directory, pairs[0])).toBe(VALUE)
    },
  )

  test('gets what it wants from as many restored holders as the threshold, until one request of another reaches them', async () => {
    await remote.revoke(stolen.publicKey)
    await restore(holders[0])
    await restore(holders[1])
    expect(await gets(stolen, backup, [0, 1])).toBe(VALUE)
    expect(await gets(caller, vault.directory, [0, 1])).toBe(VALUE)
    expect(await gets(stolen, backup, [0, 1])).toBe(REVOKED)
  })

  test('gets nothing from a holder that was away when it was revoked, once the holder is told', async () => {
    await holders[1].stop()
    const { trust: number, late } = await remote.revoke(stolen.publicKey)
    expect([number, late]).toEqual([
      1,
      [expect.stringMatching(new RegExp(`^the holder at ${holders[1].url} has not got change 5`))],
    ])
    expect((await remote.status()).holders[1]).toEqual({
      ...{ index: 1, url: holders[1].url },
      problem: expect.stringContaining('is away'),
    })
    await holders[1].start()
    expect(await gets(stolen, vault.directory, [0, 1])).toBe(REVOKED)
    // The command is repeated until all have been told.
    expect(await remote.revoke(stolen.publicKey)).toEqual({ trust: 1, late: [] })
    expect(await trusts()).toEqual(['1 same', '1 same', '1 same'])
  })
})

describe('a vault that is put back to before a revocation', () => {
  test('is rejected, and its writer is told what to revoke again', async () => {
    await remote.revoke(stolen.publicKey)
    const { sequence } = await remote.current()
    rmSync(vault.directory, { recursive: true })
    copyOf(backup, vault.directory)
    remote = await open()
    expect(await trusts()).toEqual(['1 ahead', '1 ahead', '1 ahead'])
    const again = new RegExp(
      `change ${sequence + 65} does not revoke ${stolen.publicKey}, which was revoked: revoke it again`,
    )
    expect(await failureOf(remote.recover({ after: sequence }))).toMatchObject({
      code: 'ROLLBACK',
      message: expect.stringMatching(again),
    })
    expect(await gets(stolen, vault.directory)).toBe(REVOKED)
    // Another key is no help.
    const other = createKeys().publicKey
    expect(await failureOf(remote.revoke(other))).toMatchObject({ code: 'ROLLBACK' })
    expect(await gets(caller, vault.directory)).toMatch(/does not revoke/)
    expect(await remote.revoke(stolen.publicKey)).toEqual({ trust: 2, late: [] })
    expect(await trusts()).toEqual(['2 same', '2 same', '2 same'])
    expect(await gets(stolen, vault.directory)).toBe(REVOKED)
    expect(await gets(caller, vault.directory)).toBe(VALUE)
  })

  test('and is not recovered makes a revocation that holders reject', async () => {
    await remote.put({ key: 'other' }, 'x', { policy: 'anywhere' })
    const older = await openVault(backup)
    const error = await failureOf(older.revoke(stolen.publicKey))
    expect(error).toMatchObject({ code: 'ROLLBACK' })
    expect(error.message).toMatch(/^the key is revoked at change 5, which holders reject\n/)
  })
})

test('two writers that revoke at the same time both do', async () => {
  const keys = [1, 2, 3, 4].map(() => createKeys().publicKey)
  const writers = await Promise.all(keys.map(() => open()))
  await Promise.all(keys.map((key, at) => writers[at]?.revoke(key)))
  expect(await remote.status()).toMatchObject({ trust: 4, revoked: [...keys].sort() })
  expect(await trusts()).toEqual(['4 same', '4 same', '4 same'])
})

test("a thief of the writer's key can't take a revocation back", async () => {
  await remote.revoke(stolen.publicKey)
  const other = createKeys().publicKey
  for (const revoked of [undefined, [], [other]]) {
    const text = await forged(revoked)
    const error = await failureOf(askHolder(holders[0], boxKeys(), { kind: 'manifest', text }))
    expect(error).toMatchObject({ code: 'ROLLBACK', message: expect.stringMatching(/revoke it/) })
  }
  expect(await trusts()).toEqual(['1 same', '1 same', '1 same'])
})

test('a revoked holder gets no share, even if the files of the others list it', async () => {
  const [former] = await startHolders(1, vault.writerKey)
  const all = [...holders, former as Holder]
  introduce(all)
  const { url, key } = former as Holder
  await remote.revoke(key)
  const addresses = addressesOf(all)
  expect(await failureOf(remote.reshare({ addresses }))).toMatchObject({
    message: `the key of the holder at ${url} is revoked: give it a new key`,
  })
  // The same by an order that the writer has signed.
  const writer = await writerOf()
  const receivers = all.map(each => each.key)
  const { id, ...order } = signOrder(
    { generation: 2, threshold: 2, isFresh: false, receivers },
    writer,
  )
  const invitations = receivers.map(() => '')
  const step = signStep(
    { id, kind: 'deal', holder: holders[0].key, attempt: 1, content: [invitations] },
    writer,
  )
  const asked = askHolder(holders[0], boxKeys(), { kind: 'deal', ...order, step, invitations })
  expect((await failureOf(asked)).message).toBe(`it says "${key.slice(0, 8)}... is revoked"`)
})

test('the key of a holder in use, and what is no key, are not revoked', async () => {
  const { message } = await failureOf(remote.revoke(holders[1].key))
  expect(message).toBe('the key is that of a holder: reshare without this holder first')
  for (const key of ['', 'x', '00'.repeat(32), 7 as unknown as string])
    expect(await failureOf(remote.revoke(key))).toMatchObject({ code: 'VALIDATION' })
  expect(await trusts()).toEqual(['0 same', '0 same', '0 same'])
})

test('a holder does not start with a manifest that is cut off, changed or of another vault', async () => {
  await remote.revoke(stolen.publicKey)
  const [{ directory, stop }] = holders
  await stop()
  const file = join(directory, 'manifest.json')
  const text = readFileSync(file, 'utf8')
  const other = await createVault(place())
  const strange = readFileSync(join(other.directory, 'manifests', '1.json'), 'utf8')
  for (const wrong of [
    text.slice(0, 500),
    '',
    text.replace(stolen.publicKey, createKeys().publicKey),
    text.replace(/"revoked":\[[^\]]*\]/, '"revoked":[]'),
    strange,
  ]) {
    writeFileSync(file, wrong, { mode: 0o600 })
    const { message } = await failureOf(startHolder({ directory }))
    expect(message).toMatch(/^manifest\.json is not (a manifest|signed by the vault's writer)$/)
  }
})

test('a start with a revoked key warns, and the key gets nothing', async () => {
  const [{ directory, stop, url }] = holders
  await remote.revoke(stolen.publicKey)
  const fresh = createKeys().publicKey
  trust(directory, { callers: [fresh, caller.publicKey] })
  await stop()
  const warned: string[] = []
  const before = { writer: vault.writerKey, callers: [stolen.publicKey, caller.publicKey] }
  await startHolder({
    ...{ directory, trust: before, port: Number(new URL(url).port) },
    log: { warn: line => void warned.push(line) },
  })
  const [revoked, listed] = [stolen, caller].map(({ publicKey }) => publicKey.slice(0, 8))
  expect(warned).toEqual([
    `callers: ${revoked}… is revoked, and holder.json has ${fresh.slice(0, 8)}…, ${listed}…`,
  ])
  // The holder that was started no longer lists the key, and the other one does.
  expect(await gets(stolen, vault.directory, [0, 1])).toMatch(
    /it says "(the key of this caller is revoked|the holder does not know this caller)"/,
  )
  expect(await gets(caller, vault.directory, [0, 1])).toBe(VALUE)
})
