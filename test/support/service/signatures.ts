/** The oracle network that signs: its keys, and signatures that are right or wrong in a known way. */
// @ts-expect-error The package has no types.
import secp256k1 from 'secp256k1'
import { bytesToHex, type Hex, hexToBytes, keccak256, sha256, stringToBytes } from 'viem'
import { privateKeyToAddress } from 'viem/accounts'

const { ecdsaSign } = secp256k1 as {
  ecdsaSign(hash: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
}

export interface Network {
  readonly configDigest: Hex
  /** Addresses, in lower case. */
  readonly signers: readonly Hex[]
  /** A valid report has f + 1 signatures. */
  readonly f: number
  readonly donID: number
  readonly keys: readonly Uint8Array[]
}

/**
 * - `valid`: by f + 1 signers of the network, not the same ones in each report
 * - `dummy`: f + 1 constants, which cost no time
 * - `outsider`: the last signature is by a key outside the network
 * - `tampered`: the signatures are those of another blob
 * - `repeated`: one signer signs f + 1 times
 * - `too-few`: only f signatures
 */
export type Signing = 'valid' | 'dummy' | 'outsider' | 'tampered' | 'repeated' | 'too-few'

const keyOf = (text: string): Uint8Array => hexToBytes(sha256(stringToBytes(text)))

/** The name, signers and faults of a network. */
export interface NetworkOptions {
  readonly name?: string
  readonly size?: number
  readonly f?: number
  readonly donID?: number
}

/** A network; another name makes another digest and other signers. */
export function makeNetwork(options: NetworkOptions = {}): Network {
  const { name = 'service', size = 4, f = 1, donID = 1 } = options
  const keys = Array.from({ length: size }, (_, i) => keyOf(`${name}, signer ${i}`))
  const addresses = keys.map(key => privateKeyToAddress(bytesToHex(key)).toLowerCase() as Hex)
  return {
    configDigest: `0x0009${sha256(stringToBytes(name)).slice(6)}`,
    signers: addresses,
    f,
    donID,
    keys,
  }
}

const OUTSIDER = keyOf('outsider')

/** The hash that signers of a report sign. */
export function signedHash(context: readonly Hex[], blob: Hex): Hex {
  const words = [keccak256(blob), ...context].map(part => part.slice(2))
  return keccak256(`0x${words.join('')}`)
}

export function sign(
  network: Network,
  context: readonly Hex[],
  blob: Hex,
  offset: number,
  signing: Signing,
): { rs: Hex[]; ss: Hex[]; vs: Hex } {
  const count = signing === 'too-few' ? network.f : network.f + 1
  if (signing === 'dummy') return dummies(count)
  const hash = hexToBytes(signedHash(context, signing === 'tampered' ? keccak256(blob) : blob))
  const rs: Hex[] = []
  const ss: Hex[] = []
  let vs = '0x'
  for (let i = 0; i < count; i++) {
    const index = (offset + (signing === 'repeated' ? 0 : i)) % network.keys.length
    const outside = signing === 'outsider' && i === count - 1
    const key = outside ? OUTSIDER : (network.keys[index] as Uint8Array)
    const { signature, recid } = ecdsaSign(hash, key)
    const hex = Buffer.from(signature).toString('hex')
    rs.push(`0x${hex.slice(0, 64)}`)
    ss.push(`0x${hex.slice(64)}`)
    vs += `0${recid}`
  }
  return { rs, ss, vs: vs.padEnd(66, '0') as Hex }
}

function dummies(count: number): { rs: Hex[]; ss: Hex[]; vs: Hex } {
  const words = Array.from({ length: count }, (_, i): Hex => `0x${`5${i % 10}`.repeat(32)}`)
  return { rs: words, ss: words, vs: `0x${'0'.repeat(64)}` }
}
