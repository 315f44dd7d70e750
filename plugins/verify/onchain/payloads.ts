import { ValidationError } from '../../../core/errors.js'
import { kindOf } from '../../../core/options.js'
import { checkAddress } from '../options.js'
import { isRejection, readClaim } from '../rule.js'
import { bytesWords, numberWord, rightWord, selectors } from './contracts.js'
import rows from './verifier-proxies.json' with { type: 'json' }

/** `0x` and hexadecimal digits. */
export type Hex = `0x${string}`

/** The contract that verifies reports on a network. */
export interface VerifierProxy {
  /** The name under which the service’s documentation lists the network. */
  readonly network: string
  /** The chain id of the network; undefined if no source for it is known. */
  readonly chainID: number | undefined
  /** Whether the network is a testnet. */
  readonly isTestnet: boolean
  /** The address of the contract. The case of its letters encodes a checksum. */
  readonly address: Hex
}

type Row = readonly [network: string, chainID: number | null, isTestnet: boolean, address: Hex]

/**
 * The VerifierProxy of each EVM network that the service listed on 21 August 2026. Only
 * https://docs.chain.link/data-streams/supported-networks says whether an address is still right.
 */
// The addresses are from src/features/feeds/data/StreamsNetworksData.ts of
// github.com/smartcontractkit/documentation at commit 59e5cde702f77672c34c9cf76d27735c390a1f98
// (2026-08-21), the source of the table on that page. The networks without an EVM (Aptos, Canton,
// Solana, Stellar) are left out. The chain ids are from selectors.yml of
// github.com/smartcontractkit/chain-selectors at commit 7bf600bc5765563ecc60c70548fca20e3a660928
// (2026-08-11). A chain id is left out if no name in that file clearly means the network.
export const verifierProxies: readonly VerifierProxy[] = /* @__PURE__ */ (
  rows as unknown as readonly Row[]
).map(([network, chainID, isTestnet, address]) => ({
  network,
  chainID: chainID ?? undefined,
  isTestnet,
  address,
}))

/**
 * The ABI of the functions of a VerifierProxy 2 that callers need, for viem, ethers and other
 * libraries.
 */
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
 * The second argument of a VerifierProxy’s functions: the address of the token in which the fee
 * manager is paid. Without a token the payload is empty, which is right if `s_feeManager()` is
 * zero.
 */
export function encodeParameterPayload(feeToken?: string): Hex {
  return feeToken === undefined ? '0x' : `0x${rightWord(checkAddress('feeToken', feeToken))}`
}

/**
 * The arguments of `verify(bytes payload, bytes parameterPayload)`. Throws ValidationError if the
 * bytes are not a report.
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

/** Encodes two values of variable length: first their offsets, then the values. */
function pairWords(first: string, feeToken: string | undefined): string {
  const second = bytesWords(encodeParameterPayload(feeToken))
  return numberWord(64) + numberWord(64 + first.length / 2) + first + second
}

function checkReport(field: string, value: unknown): Hex {
  const claim = readClaim(value)
  if (isRejection(claim)) throw new ValidationError(`${field} is no report: ${claim.rule}`)
  return value as Hex
}
