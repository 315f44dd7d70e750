import type { HolderAddress, HolderStatus, KeyChange, Vault } from '@sluice/confidential-http/vault'
import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, given } from '../command.js'
import { type IO, say, warn } from '../io.js'
import { bold } from '../output/colours.js'
import { keyOption, openVaultOf, vaultOptions } from './vault-options.js'

// The commands that change the vault's key, its shares or whom the holders trust; `vault status`.

/** Adds `vault reshare`. */
export const addReshareCommand: AddCommand = defineCommand({
  name: 'reshare',
  help: 'give the holders new shares of the same key; the old ones are useless from then on',
  options: {
    ...vaultOptions,
    holders: {
      is: 'number',
      help: 'how many holders there will be (default: as many as there are)',
    },
    threshold: { is: 'number', help: 'how many will release a secret (default: as it is)' },
    holder: {
      is: 'list',
      value: 'url=key',
      help: 'where a holder that is a process is, and its public key, as vault holder prints them; for each holder',
    },
    shareLifetime: {
      is: 'lifetime',
      help: 'when holders delete their shares, such as 90d: reshare before that; 0 for never (default: as it is)',
    },
  },
  examples: ['sluice vault reshare --holders 7 --threshold 4'],
  async run(options, io) {
    const { holders, threshold, holder, shareLifetime } = options
    const vault = await openVaultOf(options)
    const addresses = holder.length === 0 ? undefined : holder.map(addressOf)
    report(vault, await vault.reshare(given({ addresses, holders, threshold, shareLifetime })), io)
  },
})

/** Adds `vault rotate`. */
export const addRotateCommand: AddCommand = defineCommand({
  name: 'rotate',
  help: 'make a new key, and encrypt each secret with it; older versions and expired secrets are removed',
  options: { ...vaultOptions, ...keyOption },
  examples: ['sluice vault rotate'],
  async run(options, io) {
    const vault = await openVaultOf(options)
    report(vault, await vault.rotate(), io)
  },
})

/** Adds `vault recover`. */
export const addRecoverCommand: AddCommand = defineCommand({
  name: 'recover',
  help: 'have a vault from a backup accepted by processes that have seen a newer state of it',
  options: {
    ...vaultOptions,
    after: {
      is: 'number',
      help: 'the newest change that was seen, as the error ROLLBACK names it',
      required: true,
    },
  },
  examples: ['sluice vault recover --after 57'],
  // The file of --rollback-state records a newer state, so it would reject the restored vault. It
  // accepts the state after the recovery.
  async run({ after, rollbackState: _, ...options }, io) {
    const { sequence, late } = await (await openVaultOf(options)).recover({ after })
    for (const why of late) warn(io, why)
    say(io, `The vault is at change ${sequence}`)
  },
})

/** Adds `vault revoke`. */
export const addRevokeCommand: AddCommand = defineCommand({
  name: 'revoke',
  help: 'have all holders refuse the key of an enclave or of a former holder, for good',
  arguments: { '<key>': 'the public key' },
  options: vaultOptions,
  examples: ['sluice vault revoke 1a2b…'],
  async run(options, io, { key }) {
    const { trust, late } = await (await openVaultOf(options)).revoke(key)
    for (const why of late) warn(io, `not told yet: ${why}`)
    say(io, `Trust ${trust}: the key is revoked`)
    if (late.length > 0) io.exitCode = 1
  },
})

/** Adds `vault status`. */
export const addStatusCommand: AddCommand = defineCommand({
  name: 'status',
  help: 'show for each holder whether it can release its part, and the number of its trust',
  options: { ...vaultOptions, json: { help: 'print NDJSON' } },
  examples: ['sluice vault status'],
  async run(options, io) {
    const { trust, revoked, holders } = await (await openVaultOf(options)).status()
    if (!options.json) say(io, bold(`Trust ${trust}: ${revoked.join(', ') || 'no key'} revoked`))
    for (const holder of holders)
      say(io, options.json ? JSON.stringify({ ...holder, vaultTrust: trust }) : statusText(holder))
    const isWell = ({ problem, compared = 'same' }: HolderStatus): boolean =>
      problem === undefined && compared === 'same'
    if (!holders.every(isWell)) io.exitCode = 1
  },
})

function statusText({ index, url, trust, compared, problem }: HolderStatus): string {
  const where = url ?? "in the vault's directory"
  const number = trust === undefined ? [] : [`trust ${trust}${comparedText(compared)}`]
  return [`holder ${index}`, where, ...number, problem ?? 'ready'].join('  ')
}

function comparedText(compared: HolderStatus['compared']): string {
  if (compared === 'behind') return ", behind: it was sent the vault's"
  return compared === 'ahead' ? ', of revocations that this vault lacks: revoke again' : ''
}

function addressOf(text: string): HolderAddress {
  const at = text.lastIndexOf('=')
  if (at < 0) throw new ValidationError('--holder must be a URL, = and a public key')
  return { url: text.slice(0, at), key: text.slice(at + 1) }
}

/** Prints a change of the key, and warns of the holders that were left out. */
function report(vault: Vault, { generation, leftOut }: KeyChange, io: IO): void {
  for (const why of leftOut) warn(io, `left out: ${why}`)
  const { holders, threshold, publicKeyHex } = vault
  say(
    io,
    bold(
      `Generation ${generation}: ${holders.length} holders; ${threshold} of them release a secret`,
    ),
  )
  say(io, `public key  ${publicKeyHex}`)
}
