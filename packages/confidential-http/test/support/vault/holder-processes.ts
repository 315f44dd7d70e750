import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach } from '@jest/globals'
import { createKeys } from 'sluice/internal'
import type { HolderAddress } from '../../../vault/manifest.js'
import { openVault } from '../../../vault/open-vault.js'
import type { HolderTrust } from '../../../vault/process/holder-files.js'
import { startVaultHolder, type VaultHolderOptions } from '../../../vault/process/start-holder.js'
import type { Vault } from '../../../vault/vault.js'
import { place, vault } from './vault.js'

/** Whom the holders know as a caller. */
export const caller: ReturnType<typeof createKeys> = createKeys()
/** Starts a holder that ends with the test. */
export async function startHolder(
  options: VaultHolderOptions,
): ReturnType<typeof startVaultHolder> {
  const holder = await startVaultHolder(options)
  running.push(holder)
  return holder
}

const running: { close(): Promise<void> }[] = []
afterEach(async () => {
  await Promise.all(running.splice(0).map(each => each.close()))
})

/** A holder that can be stopped and started anew. */
export interface Holder extends HolderAddress {
  readonly directory: string
  readonly logged: readonly string[]
  stop(): Promise<void>
  start(): Promise<void>
}

/** Starts holders that trust each other. */
export async function startHolders(count: number, writer: string): Promise<Holder[]> {
  const made = await Promise.all(
    Array.from({ length: count }, async () => {
      const directory = place()
      const trust = { writer, callers: [caller.publicKey] }
      const logged: string[] = []
      const log = { info: (line: string) => void logged.push(line) }
      const first = await startHolder({ directory, trust, log })
      const port = Number(new URL(first.url).port)
      let holder = first
      return {
        ...{ url: first.url, key: first.publicKey, directory, logged },
        stop: () => holder.close(),
        async start() {
          holder = await startHolder({ directory, port })
        },
      }
    }),
  )
  introduce(made)
  return made
}

export const trustOf = (directory: string): HolderTrust =>
  JSON.parse(readFileSync(join(directory, 'holder.json'), 'utf8'))

/** Changes the file of a holder, as its operator does. */
export function trust(
  directory: string,
  changed: { readonly [Name in keyof HolderTrust]?: HolderTrust[Name] | undefined },
): void {
  const text = JSON.stringify({ ...trustOf(directory), ...changed })
  writeFileSync(join(directory, 'holder.json'), text)
}

/** Makes holders each other's peers. */
export function introduce(holders: readonly Holder[]): void {
  for (const { directory } of holders) trust(directory, { peers: holders.map(({ key }) => key) })
}

export const addressesOf = (holders: readonly Holder[]): HolderAddress[] =>
  holders.map(({ url, key }) => ({ url, key }))
/** Opens the vault as the caller that the holders know. */
export const open = (): Promise<Vault> =>
  openVault(vault.directory, { callerSecretKey: caller.secretKey })
export const sharesOf = ({ directory }: Holder): string[] => readdirSync(join(directory, 'shares'))
