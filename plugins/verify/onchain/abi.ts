import { DIGITS } from '../../../report/full-report.js'
import { NodeFailure } from './node.js'

// The part of Solidity’s ABI that the verifier contracts need. The tests compare it with viem’s and ethers’.

/** `0x` and hexadecimal digits. */
export type Hex = `0x${string}`

/** The first four bytes of a call or an error: of the hash of its name. */
export const selectors = {
  typeAndVersion: '0x181f5a77',
  getVerifier: '0xeeb7b248',
  latestConfigDetails: '0xe84f128e',
  verifyBySender: '0x3d3ac1b5',
  verify: '0xf7e83aee',
  verifyBulk: '0xf873a61c',
  DigestInactive: '0xd990d621',
  IncorrectSignatureCount: '0x5348a282',
} as const

/** The first topic of an event: the hash of its name. */
export const events = {
  ConfigSet: '0x5b1f376eb2bda670fa39339616d0a73f45b61bec8faeba8ca834f2ebb49676e0',
  ConfigUpdated: '0xb0b75a854fab801413da6202fc07e875c54eaf371a1e3909fb2645364ba58616',
} as const

/** The bytes of a word. */
const WORD = 32
const ADDRESS_DIGITS = 40

/** A number as a word, without `0x`. */
export function numberWord(value: number): string {
  return value.toString(16).padStart(DIGITS, '0')
}

/** Digits of less than a word at the right of one: an address. */
export function rightWord(digits: string): string {
  return digits.replace(/^0x/, '').toLowerCase().padStart(DIGITS, '0')
}

/** The length and the digits of `bytes`, filled up to whole words. */
export function bytesWords(hex: string): string {
  const digits = hex.slice(2)
  return (
    numberWord(digits.length / 2) + digits.padEnd(DIGITS * Math.ceil(digits.length / DIGITS), '0')
  )
}

/** Words of data that a node returned. What is not there, or not encoded as it should be, is a NodeFailure. */
export interface Words {
  /** No whole number where the last is cut short. */
  readonly count: number
  /** Its digits. */
  word(at: number): string
  /** NaN for a number over 2^53 - 1. */
  number(at: number): number
  address(at: number): string
  /** The addresses of the list whose offset is the word `at`; it must begin at the word `begin`. */
  addresses(at: number, begin: number): readonly string[]
}

/** The words of data after its first `skipped` bytes. */
export function createWords(data: string, skipped = 0): Words {
  const start = 2 + 2 * skipped
  const count = (data.length - start) / DIGITS

  const word = (at: number): string => {
    if (!(at + 1 <= count)) throw malformed()
    return data.slice(start + DIGITS * at, start + DIGITS * (at + 1))
  }
  const number = (at: number): number => {
    const value = Number(`0x${word(at)}`)
    return value <= Number.MAX_SAFE_INTEGER ? value : Number.NaN
  }
  const address = (at: number): string => {
    const digits = word(at)
    const unused = DIGITS - ADDRESS_DIGITS
    if (!/^0*$/.test(digits.slice(0, unused))) throw malformed()
    return `0x${digits.slice(unused)}`
  }
  const addresses = (at: number, begin: number): readonly string[] => {
    const length = number(begin)
    if (number(at) !== WORD * begin || !(begin + length < count)) throw malformed()
    return Array.from({ length }, (_, index) => address(begin + 1 + index))
  }
  return { count, word, number, address, addresses }
}

function malformed(): NodeFailure {
  return new NodeFailure('a contract’s answer or log is not encoded as it should be')
}

/** The text of an ABI-encoded string of up to 64 characters. */
export function readText(data: string): string | undefined {
  const words = createWords(data)
  if (words.count < 2 || words.number(0) !== WORD) return undefined
  const length = words.number(1)
  if (!(length <= 2 * WORD) || words.count < 2 + Math.ceil(length / WORD)) return undefined
  const digits = data.slice(2 + 2 * DIGITS, 2 + 2 * DIGITS + 2 * length)
  return digits.replace(/../g, pair => String.fromCharCode(Number.parseInt(pair, 16)))
}

/** The signers of a configuration, as an event has them. */
export interface LoggedConfig {
  readonly signers: readonly string[]
  /** Undefined in `ConfigUpdated`, which does not have it. */
  readonly f: number | undefined
}

/** Reads the data of `ConfigSet(bytes32 indexed configDigest, address[] signers, uint8 f)`. */
export function readConfigSet(data: string): LoggedConfig {
  const words = createWords(data)
  const signers = words.addresses(0, 2)
  if (words.count !== 3 + signers.length) throw malformed()
  return { signers, f: words.number(1) }
}

/** Reads that of `ConfigUpdated(bytes32 indexed configDigest, address[] prevSigners, address[] newSigners)`. */
export function readConfigUpdated(data: string): LoggedConfig {
  const words = createWords(data)
  const before = words.addresses(0, 2)
  const signers = words.addresses(1, 3 + before.length)
  if (words.count !== 4 + before.length + signers.length) throw malformed()
  return { signers, f: undefined }
}
