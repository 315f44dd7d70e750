import { ValidationError } from '../../../core/errors.js'
import { kindOf } from '../../../core/options.js'
import { isRejection, readClaim } from '../rule.js'
import { bytesWords, type Hex, numberWord, rightWord, selectors } from './abi.js'
import { checkAddress } from './onchain-signers.js'

/** The functions of a VerifierProxy 2 that a caller needs, for viem, ethers and others. */
export const verifierProxyABI = [
  {
    type: 'function',
    name: 'verify',
    stateMutability: 'payable',
    inputs: [
      { name: 'payload', type: 'bytes' },
      { name: 'parameterPayload', type: 'bytes' },
    ],
    outputs: [{ name: 'verifiedReport', type: 'bytes' }],
  },
  {
    type: 'function',
    name: 'verifyBulk',
    stateMutability: 'payable',
    inputs: [
      { name: 'payloads', type: 'bytes[]' },
      { name: 'parameterPayload', type: 'bytes' },
    ],
    outputs: [{ name: 'verifiedReports', type: 'bytes[]' }],
  },
  {
    type: 'function',
    name: 'getVerifier',
    stateMutability: 'view',
    inputs: [{ name: 'configDigest', type: 'bytes32' }],
    outputs: [{ name: 'verifier', type: 'address' }],
  },
  {
    type: 'function',
    name: 's_feeManager',
    stateMutability: 'view',
    inputs: [],
    outputs: [{ name: 'feeManager', type: 'address' }],
  },
] as const

/**
 * What a VerifierProxy takes besides the report: the address of the token in which its fee manager is paid. Without a token it
 * is empty, which is right where `s_feeManager()` is zero.
 */
export function encodeParameterPayload(feeToken?: string): Hex {
  return feeToken === undefined ? '0x' : `0x${rightWord(checkAddress('feeToken', feeToken))}`
}

/** The arguments of `verify(bytes payload, bytes parameterPayload)`. Throws ValidationError for what is no report. */
export function verifyArgs(fullReport: string, feeToken?: string): readonly [Hex, Hex] {
  return [checkReport('fullReport', fullReport), encodeParameterPayload(feeToken)]
}

/** The arguments of `verifyBulk(bytes[] payloads, bytes parameterPayload)`. Throws ValidationError. */
export function verifyBulkArgs(
  fullReports: readonly string[],
  feeToken?: string,
): readonly [readonly Hex[], Hex] {
  if (!Array.isArray(fullReports))
    throw new ValidationError(`fullReports must be a list, not ${kindOf(fullReports)}`)
  if (fullReports.length === 0) throw new ValidationError('fullReports must not be empty')
  const payloads = fullReports.map((each, index) => checkReport(`fullReports[${index}]`, each))
  return [payloads, encodeParameterPayload(feeToken)]
}

/** The data of a transaction or call to a VerifierProxy that verifies a report. Throws ValidationError. */
export function encodeVerify(fullReport: string, feeToken?: string): Hex {
  return `${selectors.verify}${pairWords(bytesWords(verifyArgs(fullReport, feeToken)[0]), feeToken)}`
}

/** The data of one that verifies several. Throws ValidationError. */
export function encodeVerifyBulk(fullReports: readonly string[], feeToken?: string): Hex {
  const [reports] = verifyBulkArgs(fullReports, feeToken)
  const parts = reports.map(bytesWords)
  let at = 32 * parts.length
  const offsets = parts.map(part => {
    const offset = numberWord(at)
    at += part.length / 2
    return offset
  })
  const list = numberWord(parts.length) + offsets.join('') + parts.join('')
  return `${selectors.verifyBulk}${pairWords(list, feeToken)}`
}

/** Two values of variable length: their offsets, and the values. */
function pairWords(first: string, feeToken: string | undefined): string {
  const second = bytesWords(encodeParameterPayload(feeToken))
  return numberWord(64) + numberWord(64 + first.length / 2) + first + second
}

function checkReport(field: string, value: unknown): Hex {
  const claim = readClaim(value)
  if (isRejection(claim)) throw new ValidationError(`${field} is no report: ${claim.rule}`)
  return value as Hex
}
