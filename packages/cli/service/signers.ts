import { ValidationError } from 'sluice/core'
import type { SignerSet, Signers } from 'sluice/plugins/verify'
import { inGroup, type Values } from '../command.js'
import { parseJSON, readSome } from '../input/files.js'

const signerSpecs = {
  signers: {
    value: 'list|file',
    help: 'verify: addresses, separated by commas, or a JSON file of one or several { signers, f, configDigest?, activeFrom?, activeUntil? }',
  },
  f: {
    is: 'whole',
    help: 'how many of the listed signers may be faulty',
    min: 1,
    max: 10,
    needs: ['signers'],
  },
  onchain: {
    is: 'url',
    help: 'verify: an Ethereum node, which is asked for the signers of the verifier contract',
    excludes: ['signers', 'f'],
  },
  verifier: {
    is: 'address',
    help: 'the contract: a VerifierProxy (default: that of the node’s network)',
    needs: ['onchain'],
  },
} as const
/** The options that name the signers to accept. */
export const signerOptions: typeof signerSpecs = inGroup('Verification', signerSpecs)
export type SignerOptions = Values<typeof signerOptions>

/** The signers that the options name; undefined if they name none. */
export async function findSigners(options: SignerOptions): Promise<Signers | undefined> {
  const { signers, f, onchain, verifier } = options
  if (signers !== undefined) return await readSigners(signers, f)
  if (onchain === undefined) return undefined
  const { findOnchainSigners } = await import('./onchain.js')
  return findOnchainSigners(onchain, verifier)
}

/** The most bytes of a file of signers. */
const MAX_BYTES = 1_048_576

async function readSigners(signers: string, f?: number): Promise<SignerSet | readonly SignerSet[]> {
  if (!/^0x[0-9a-f]+\s*(,|$)/i.test(signers.trim())) {
    if (f !== undefined) throw new ValidationError('--f goes with a list: a file has its own')
    const text = (await readSome('--signers', signers, MAX_BYTES)).toString().trim()
    if (/^0x/i.test(text))
      throw new ValidationError(
        '--signers must be a file of JSON: addresses alone are given as --signers 0x…,0x… --f <n>',
      )
    return parseJSON(`--signers ${signers}`, text) as SignerSet
  }
  if (f === undefined) throw new ValidationError('--f must be given with a list of signers')
  return { signers: signers.split(',').map(each => each.trim()), f }
}
