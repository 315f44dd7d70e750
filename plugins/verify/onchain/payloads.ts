import { ValidationError } from '../../../core/errors.js'
import { kindOf } from '../../../core/options.js'
import { checkAddress } from '../options.js'
import { isRejection, readClaim } from '../rule.js'
import { bytesWords, numberWord, rightWord, selectors } from './contracts.js'
import rows from './verifier-proxies.json' with { type: 'json' }

/** `0x` and hexadecimal digits. */
export type Hex = `0x${string}`

/** The contract of a network that verifies reports. */
export interface VerifierProxy {
  /** The name by which the documentation of the service lists it. */
  readonly network: string
  /** Undefined if no source of both the name and the number is at hand. */
  readonly chainID: number | undefined
  /** Whether the network is one for tests. */
  readonly isTestnet: boolean
  /** With the capitals of its checksum. */
  readonly address: Hex
}

type Row = readonly [network: string, chainID: number | null, isTestnet: boolean, address: Hex]

/**
 * The VerifierProxy of each EVM network that the service listed on 21 August 2026. Whether an
 * address is still the right one can be seen on
 * https://docs.chain.link/data-streams/supported-networks alone.
 */
// The addresses: src/features/feeds/data/StreamsNetworksData.ts of
// github.com/smartcontractkit/documentation at commit 59e5cde702f77672c34c9cf76d27735c390a1f98
// (2026-08-21), which is the table of that page. Its networks without an EVM (Aptos, Canton,
// Solana, Stellar) are left out. The numbers of the chains: selectors.yml of
// github.com/smartcontractkit/chain-selectors at commit 7bf600bc5765563ecc60c70548fca20e3a660928
// (2026-08-11), if one name there is clearly meant.
export const verifierProxies: readonly VerifierProxy[] = /* @__PURE__ */ (
  rows as unknown as readonly Row[]
).map(([network, chainID, isTestnet, address]) => ({
  network,
  chainID: chainID ?? undefined,
  isTestnet,
  address,
}))

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
 * The second argument of a VerifierProxy: the address of the token in which its fee manager is
 * paid. Without a token the payload is empty, which is right if `s_feeManager()` is zero.
 */
export function encodeParameterPayload(feeToken?: string): Hex {
  return feeToken === undefined ? '0x' : `0x${rightWord(checkAddress('feeToken', feeToken))}`
}

/**
 * The arguments of `verify(bytes payload, bytes parameterPayload)`. Throws ValidationError if the
 * bytes are no report.
 */
export function verifyArgs(fullReport: string, feeToken?: string): readonly [Hex, Hex] {
  return [checkReport('fullReport', fullReport), encodeParameterPayload(feeToken)]
}

/**
 * The arguments of `verifyBulk(bytes[] payloads, bytes parameterPayload)`. Throws ValidationError.
 */
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

/**
 * The data of a transaction or call to a VerifierProxy that verifies a report. Throws
 * ValidationError.
 */
export function encodeVerify(fullReport: string, feeToken?: string): Hex {
  return `${selectors.verify}${pairWords(bytesWords(verifyArgs(fullReport, feeToken)[0]), feeToken)}`
}

/** The data of a transaction or call that verifies several reports. Throws ValidationError. */
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
