import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, beforeEach, expect } from '@jest/globals'
import { boxKeys, openSealed } from 'sluice/internal'
import { readUse, type SecretName } from 'sluice/plugins/confidential-http'
import {
  combine,
  createShare,
  parseCiphertext,
  parseDecryptionShare,
  parsePrivateShare,
  verifyShare,
} from 'sluice/tdh2'
import { createVault } from '../../../vault/create-vault.js'
import type { SecretInfo, Vault } from '../../../vault/vault.js'

const places: string[] = []

export function place(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-vault-'))
  places.push(directory)
  return join(directory, 'vault')
}

afterAll(() => {
  for (const directory of places) rmSync(directory, { recursive: true, force: true })
})

export const OWNER = '00112233445566778899aabbccddeeff00112233'

export const OTHER: string = 'f'.repeat(40)

export const VALUE = 'a value that must not be seen'

export const nameOf = (key: string, owner: string = OWNER, namespace = 'main'): SecretName => ({
  owner,
  namespace,
  key,
})

/** Reveals a secret as an enclave does: asks some holders, verifies, combines. */
export async function reveal(
  vault: Vault,
  name: SecretName,
  indexes?: readonly number[],
): Promise<string> {
  const keys = boxKeys()
  const ciphertext = parseCiphertext(vault.publicKey, await vault.ciphertext(name))
  const shares = await Promise.all(
    vault.holders
      .filter(({ index }) =>
        indexes === undefined ? index < vault.threshold : indexes.includes(index),
      )
      .map(async function shareOf(holder) {
        const opened = openSealed(await holder.release(name, keys.publicKey), keys)
        const share = parseDecryptionShare(Buffer.from(opened as Uint8Array).toString())
        verifyShare(vault.publicKey, ciphertext, share)
        return share
      }),
  )
  const { threshold } = vault
  return textOf(await combine(ciphertext, shares, { threshold }))
}

/** The stored value of a secret, decrypted without the holders: tweetnacl is slow in jest. */
export async function storedValue(vault: Vault, name: SecretName): Promise<string> {
  const ciphertext = parseCiphertext(vault.publicKey, await vault.ciphertext(name))
  const shares = [0, 1].map(function shareOf(index) {
    const file = join(vault.directory, 'shares', String(vault.generation), `${index}.json`)
    const share = parsePrivateShare(readFileSync(file, 'utf8'))
    return parseDecryptionShare(createShare(ciphertext, share))
  })
  return textOf(await combine(ciphertext, shares, { threshold: 2 }))
}

/** The value, without its policy. */
function textOf(stored: Uint8Array): string {
  return Buffer.from(readUse(stored).value).toString()
}

export const release = (
  vault: Vault,
  index: number,
  name: SecretName,
): Promise<Uint8Array<ArrayBufferLike>> =>
  vault.holders[index]?.release(name, boxKeys().publicKey) as Promise<Uint8Array>

/** Lists all files below a folder. (`readdir` is not recursive in Node 20.0.) */
export function walk(folder: string, path = ''): string[] {
  return readdirSync(join(folder, path), { withFileTypes: true }).flatMap(entry => {
    const inner = path === '' ? entry.name : `${path}/${entry.name}`
    return entry.isDirectory() ? [inner, ...walk(folder, inner)] : [inner]
  })
}

/** Everything of an error that a log may show. */
export const shown = (error: unknown): string =>
  `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)} ${String(error)}`

export let vault: Vault

beforeEach(async () => {
  vault = await createVault(place(), { owner: OWNER })
})

export const at = (...path: readonly string[]): string => join(vault.directory, ...path)

/** The path of a holder's share, in the first generation. */
export const shareFile = (index: number): string => at('shares', '1', `${index}.json`)

/** The file of a secret's only version, or of `KEY` where there is none. */
export function secretFile(key = 'key', owner: string = OWNER): string {
  const folder = at('secrets', owner, 'main')
  const found = readdirSync(folder).filter(each => each.startsWith(`${key}.`))
  if (found.length > 1) throw new Error(`${key} has several versions`)
  return join(folder, found[0] ?? `${key}.json`)
}

/** The name and the version of a secret, as a vault lists it. */
export const infoOf = (name: SecretName, version = 1): SecretInfo => ({
  ...name,
  version,
  putAt: expect.any(Number) as unknown as number,
  policy: 'anywhere',
})

export const edit = (path: string, change: (fields: Record<string, unknown>) => object): void =>
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))))
