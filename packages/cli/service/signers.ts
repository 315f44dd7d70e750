import type { Command } from 'commander'
import { ValidationError } from 'sluice/core'
import type { SignerSet, Signers } from 'sluice/plugins/verify'
import { wholeNumber } from '../input/arguments.js'
import { parseJSON, readFile } from '../input/files.js'

/** The options that say who may sign. */
export interface SignerOptions {
  readonly signers?: string
  readonly f?: number
  readonly onchain?: string
  readonly verifier?: string
}

/** Adds them to a command. */
export function addSignerOptions(command: Command): Command {
  return command
    .option(
      '--signers <list|file>',
      'verify: addresses, separated by commas, or a JSON file of one or several { signers, f, configDigest?, activeFrom?, activeUntil? }',
    )
    .option('--f <n>', 'how many of the listed signers may be faulty', wholeNumber(1, 10))
    .option(
      '--onchain <url>',
      'verify: an Ethereum node, which is asked for the signers of the verifier contract',
    )
    .option(
      '--verifier <address>',
      'the contract: a VerifierProxy (default: that of the node’s network)',
    )
}

/** The signers that the options name; undefined where they name none. */
export async function findSigners(options: SignerOptions): Promise<Signers | undefined> {
  const { signers, f, onchain, verifier } = options
  if (onchain === undefined) {
    if (verifier !== undefined) throw new ValidationError('--verifier goes with --onchain')
    if (signers !== undefined) return readSigners(signers, f)
    if (f !== undefined) throw new ValidationError('--f goes with --signers')
    return undefined
  }
  if (signers !== undefined || f !== undefined)
    throw new ValidationError('--onchain takes the place of --signers and --f')
  const { findOnchainSigners } = await import('./onchain.js')
  return findOnchainSigners(onchain, verifier)
}

function readSigners(signers: string, f?: number): SignerSet | readonly SignerSet[] {
  if (!/^0x[0-9a-f]+\s*(,|$)/i.test(signers.trim())) {
    if (f !== undefined) throw new ValidationError('--f goes with a list: a file has its own')
    const text = readFile('--signers', signers).toString().trim()
    if (/^0x/i.test(text))
      throw new ValidationError(
        '--signers must be a file of JSON: addresses alone are given as --signers 0x…,0x… --f <n>',
      )
    return parseJSON('--signers', text) as SignerSet
  }
  if (f === undefined) throw new ValidationError('--f must be given with a list of signers')
  return { signers: signers.split(',').map(each => each.trim()), f }
}
