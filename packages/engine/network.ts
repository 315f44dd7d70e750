import { keccak_256 } from '@noble/hashes/sha3'
import { checkOptions, ValidationError } from 'sluice/core'
import { type Curve, ORDER } from './curve.js'
import { encodeFullReport, word } from './encode.js'
import { checkEngineOptions, type Settings } from './options.js'
import { seededBytes } from './random.js'

/** A set of signers. */
export interface SignerSet {
  /** 32 bytes in hex with `0x`, the first word of every report this network signs. */
  readonly configDigest: string
  /** How many signers may be faulty: a report carries f + 1 signatures. */
  readonly f: number
  /** Addresses of all signers, lower-case, with `0x`. */
  readonly signers: readonly string[]
}

/** A signer set with its keys. */
export interface Network {
  readonly set: SignerSet
  /**
   * Signs a report blob (hex) and returns the full report, by default under the network's own digest (hex).
   * Equal arguments give equal bytes (RFC 6979).
   */
  readonly sign: (blob: string, seqNr: number, configDigest?: string) => string
}

// The number of the signing network, in the upper bytes of the extra hash.
const donID = 3n

/** The address of an uncompressed public key. */
function addressOf(publicKey: Uint8Array): string {
  return `0x${Buffer.from(keccak_256(publicKey.subarray(1)).subarray(12)).toString('hex')}`
}

/** The signed hash: keccak256(keccak256(blob) ‖ context), all in hex without `0x`. */
export function reportDigest(blob: string, context: readonly string[]): Uint8Array {
  const hash = keccak_256(Buffer.from(blob, 'hex'))
  return keccak_256(Buffer.concat([hash, Buffer.from(context.join(''), 'hex')]))
}

/** The other s that makes a valid signature with the same r, as hex. */
export function mirrored(s: string): string {
  return word(ORDER - BigInt(`0x${s}`))
}

/** Makes signers and their config digest from the seed; each generation has others. */
export function createNetwork(
  curve: Curve,
  seed: number,
  nodes: number,
  f: number,
  generation = 0,
): Network {
  const which = generation === 0 ? '' : ` of generation ${generation}`
  const keys = Array.from({ length: nodes }, (_, i) => seededBytes(seed, `signer ${i}${which}`))
  const signers = Object.freeze(keys.map(key => addressOf(curve.publicKey(key))))
  // Config digests of current report networks begin with 0x0009.
  const digest = `0009${seededBytes(seed, `config ${nodes} ${f}${which}`).toString('hex').slice(4)}`

  function sign(blob: string, seqNr: number, configDigest = digest): string {
    // Epoch and round, the last five bytes of this word, are the sequence number divided by 256 and its remainder.
    const context = [configDigest, word(seqNr), word((donID << 32n) | 1n)] as const
    const hash = reportDigest(blob, context)
    const rs: string[] = []
    const ss: string[] = []
    let vs = ''
    for (let i = 0; i <= f; i++) {
      const key = keys[(seqNr + i) % nodes] as Uint8Array
      const { rs: both, recovery } = curve.sign(hash, key)
      const hex = Buffer.from(both).toString('hex')
      rs.push(hex.slice(0, 64))
      ss.push(hex.slice(64))
      vs += recovery.toString(16).padStart(2, '0')
    }
    return encodeFullReport({ context, blob, rs, ss, vs: vs.padEnd(64, '0') })
  }

  const set = Object.freeze({ configDigest: `0x${digest}`, f, signers })
  return { set, sign }
}

/** Other numbers of signers for `rotate`. */
export interface RotateOptions {
  /** How many signers the new configuration has. @default as many as before; 3f + 1 where `f` is given */
  readonly nodes?: number
  /** How many of them may be faulty. @default as many as before */
  readonly f?: number
}

/** A network whose signers can be replaced. */
export interface RotatingNetwork {
  /** Signs with these signers, or the current ones. */
  readonly sign: (blob: string, seqNr: number, signers?: SignerSet) => string
  readonly rotate: (to?: RotateOptions) => SignerSet
  /** The signers so far, the oldest set first. */
  readonly sets: readonly SignerSet[]
}

/** A network with the signers of the settings. */
export function createRotatingNetwork(curve: Curve, settings: Settings): RotatingNetwork {
  const { seed } = settings
  let network = createNetwork(curve, seed, settings.nodes, settings.f)
  const networks = new Map([[network.set.configDigest, network]])
  const sets = [network.set]
  return {
    sign(blob, seqNr, signers = network.set) {
      const { configDigest } = signers
      const signing = networks.get(configDigest)
      if (signing === undefined)
        throw new ValidationError(`publish: no network of the engine's has ${configDigest}`)
      return signing.sign(blob, seqNr)
    },
    rotate(given) {
      const to = checkOptions('rotate', given, { nodes: true, f: true })
      const { f, nodes } = checkEngineOptions({
        f: to.f ?? network.set.f,
        nodes: to.nodes ?? (to.f === undefined ? network.set.signers.length : 3 * to.f + 1),
      })
      network = createNetwork(curve, seed, nodes, f, sets.length)
      networks.set(network.set.configDigest, network)
      sets.push(network.set)
      return network.set
    },
    sets,
  }
}
