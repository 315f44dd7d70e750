import type {
  KeyChange,
  HolderAddress,
  ReshareOptions,
  Vault,
} from '@sluice/confidential-http/vault'
import { ValidationError } from 'sluice/core'
import { collect, lifetime, number } from '../input/arguments.js'
import { type IO, say, warn } from '../io.js'
import { bold } from '../output/colours.js'
import { type Add, type InVault, keyText, openVaultOf } from './command.js'

/** Adds the commands that change the vault's key, or who has which share of it. */
export function addKeyCommands(add: Add, io: IO): void {
  add(
    'reshare',
    'give the holders new shares of the same key; the old ones are useless from then on',
    'sluice vault reshare --holders 7 --threshold 4',
  )
    .option(
      '--holders <n>',
      'how many holders there will be (default: as many as there are)',
      number,
    )
    .option('--threshold <n>', 'how many will release a secret (default: as it is)', number)
    .option(
      '--holder <url=key>',
      'where a holder that is a process is, and its public key, as vault holder prints them; for each holder',
      collect,
      [],
    )
    .option(
      '--share-lifetime <time>',
      'when holders delete their shares, such as 90d: reshare before that; 0 for never (default: as it is)',
      lifetime,
    )
    .action(async (given: ReshareCommandOptions) => {
      const { holders, threshold, holder, shareLifetime, ...options } = given
      const opened = await openVaultOf(options)
      const split = {
        ...(holder.length === 0 ? {} : { addresses: holder.map(addressOf) }),
        ...(holders === undefined ? {} : { holders }),
        ...(threshold === undefined ? {} : { threshold }),
        ...(shareLifetime === undefined ? {} : { shareLifetime }),
      }
      report(opened, await opened.reshare(split), io)
    })

  add(
    'rotate',
    'make a new key, and encrypt each secret with it; older versions and expired secrets are removed',
    'sluice vault rotate',
  )
    .option('--key <file>', keyText)
    .action(async (options: InVault) => {
      const opened = await openVaultOf(options)
      report(opened, await opened.rotate(), io)
    })

  add(
    'recover',
    'have a vault that was put back from a backup accepted by who has seen a newer state',
    'sluice vault recover --after 57',
  )
    .requiredOption(
      '--after <n>',
      'the newest change that was seen, as the error ROLLBACK names it',
      number,
    )
    // A file that has seen a newer state would reject this one; it accepts the next.
    .action(async ({ after, rollbackState: _, ...options }: RecoverCommandOptions) => {
      const { sequence, late } = await (await openVaultOf(options)).recover({ after })
      for (const why of late) warn(io, why)
      say(io, `The vault is at change ${sequence}`)
    })
}

interface RecoverCommandOptions extends InVault {
  readonly after: number
}

interface ReshareCommandOptions extends Omit<ReshareOptions, 'addresses'>, InVault {
  readonly holder: readonly string[]
}

function addressOf(text: string): HolderAddress {
  const at = text.lastIndexOf('=')
  if (at < 0) throw new ValidationError('--holder must be a URL, = and a public key')
  return { url: text.slice(0, at), key: text.slice(at + 1) }
}

/** Prints what a change of the key has made, and warns of the holders that were left out. */
function report(vault: Vault, { generation, leftOut }: KeyChange, io: IO): void {
  for (const why of leftOut) warn(io, `left out: ${why}`)
  io.stdout.write(
    [
      bold(
        `Generation ${generation}: ${vault.holders.length} holders; ${vault.threshold} of them release a secret`,
      ),
      `public key  ${vault.publicKeyHex}`,
      '',
    ].join('\n'),
  )
}
