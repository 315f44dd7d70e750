import { secp256k1 } from '@noble/curves/secp256k1'
import { keccak_256 } from '@noble/hashes/sha3'
import { optional, readOptions, type Schema, unchecked, ValidationError } from 'sluice/core'
import { encodeFullReport, type SignedParts, word } from './encode.js'
import { checkFaulty, checkNodes, type Settings } from './options.js'
import { seededBytes } from './random.js'

/** The secp256k1 operations of signers. Every implementation is deterministic (RFC 6979). */
export interface Curve {
  /** The uncompressed public key of a secret key. */
  publicKey(key: Uint8Array): Uint8Array
  /**
   * `rs` is r and then s, 32 bytes each. s is in the lower half of its range. `recovery`, 0 or 1,
   * says which of the two points with this r is meant.
   */
  sign(hash: Uint8Array, key: Uint8Array): { rs: Uint8Array; recovery: number }
}

/** The functions of the native package that are used here. */
interface Native {
  publicKeyCreate(key: Uint8Array, isCompressed: boolean): Uint8Array
  ecdsaSign(hash: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
}

const portable: Curve = {
  publicKey: key => secp256k1.getPublicKey(key, false),
  sign(hash, key) {
    const signature = secp256k1.sign(hash, key)
    return { rs: signature.toCompactRawBytes(), recovery: signature.recovery }
  },
}

/**
 * Loads libsecp256k1 if it is installed; otherwise, returns the portable implementation.
 * libsecp256k1 signs ten times as fast.
 */
export async function loadCurve(): Promise<Curve> {
  try {
    // @ts-expect-error: it has no types, unless its types are installed
    const { default: native }: { default: Native } = await import('secp256k1/bindings.js')
    const curve: Curve = {
      publicKey: key => native.publicKeyCreate(key, false),
      sign(hash, key) {
        const { signature, recid } = native.ecdsaSign(hash, key)
        return { rs: signature, recovery: recid }
      },
    }
    // This call throws if a test runs in another realm: the package accepts only arrays of its own
    // realm.
    curve.sign(new Uint8Array(32).fill(1), new Uint8Array(32).fill(1))
    return curve
  } catch {
    return portable
  }
}

/** A set of signers. */
export interface SignerSet {
  /** 32 bytes in hex with `0x`: the first word of every report that these signers sign. */
  readonly configDigest: string
  /** How many signers may be faulty. A report has f + 1 signatures. */
  readonly f: number
  /** Addresses of all signers, lower-case, with `0x`. */
  readonly signers: readonly string[]
}

/** The number of the signing network, in the upper bytes of the extra hash. */
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

/** A set of signers with their private keys. */
export class Network {
  readonly set: SignerSet
  readonly #curve: Curve
  readonly #keys: readonly Uint8Array[]

  /**
   * Makes signers and their config digest from the seed. Each generation has different signers and
   * another digest.
   */
  constructor(curve: Curve, seed: number, nodes: number, f: number, generation = 0) {
    const which = generation === 0 ? '' : ` of generation ${generation}`
    const keys = Array.from({ length: nodes }, (_, i) => seededBytes(seed, `signer ${i}${which}`))
    const signers = Object.freeze(keys.map(key => addressOf(curve.publicKey(key))))
    const digest = seededBytes(seed, `config ${nodes} ${f}${which}`).toString('hex').slice(4)
    this.#curve = curve
    this.#keys = keys
    // Config digests of current report networks begin with 0x0009.
    this.set = Object.freeze({ configDigest: `0x0009${digest}`, f, signers })
  }

  /**
   * Signs a report blob (hex) and returns the full report. By default, it uses the network's own
   * config digest (hex). Equal arguments give equal bytes (RFC 6979).
   */
  sign(blob: string, seqNr: number, configDigest: string = this.set.configDigest.slice(2)): string {
    // The last five bytes of the second word are the epoch and the round: the sequence number
    // divided by 256, and the remainder.
    const context = [configDigest, word(seqNr), word((donID << 32n) | 1n)] as const
    const hash = reportDigest(blob, context)
    const rs: string[] = []
    const ss: string[] = []
    let vs = ''
    for (let i = 0; i <= this.set.f; i++) {
      const key = this.#keys[(seqNr + i) % this.#keys.length] as Uint8Array
      const { rs: both, recovery } = this.#curve.sign(hash, key)
      const hex = Buffer.from(both).toString('hex')
      rs.push(hex.slice(0, 64))
      ss.push(hex.slice(64))
      vs += recovery.toString(16).padStart(2, '0')
    }
    return encodeFullReport({ context, blob, rs, ss, vs: vs.padEnd(64, '0') })
  }
}

/** The numbers of signers after `rotate`. */
export interface RotateOptions {
  /**
   * How many signers the new configuration has. @default as many as before; 3f + 1 where `f` is
   * given
   */
  readonly nodes?: number
  /** How many of the signers may be faulty. @default as many as before */
  readonly f?: number
}

const schema = {
  nodes: unchecked<number | undefined>,
  f: optional(checkFaulty),
} satisfies Schema<RotateOptions>

/** A network whose signers can be replaced. */
export class RotatingNetwork {
  readonly #curve: Curve
  readonly #seed: number
  /** The networks so far, the oldest first. */
  readonly #networks: Network[]

  constructor(curve: Curve, { seed, nodes, f }: Settings) {
    this.#curve = curve
    this.#seed = seed
    this.#networks = [new Network(curve, seed, nodes, f)]
  }

  /** The signers so far, the oldest set first. */
  get sets(): SignerSet[] {
    return this.#networks.map(({ set }) => set)
  }

  get #current(): Network {
    return this.#networks.at(-1) as Network
  }

  /** Signs with the given signers; by default, with the current signers. */
  sign(blob: string, seqNr: number, { configDigest }: SignerSet = this.#current.set): string {
    const network = this.#networks.find(({ set }) => set.configDigest === configDigest)
    if (network === undefined)
      throw new ValidationError(`publish: no network of the engine's has ${configDigest}`)
    return network.sign(blob, seqNr)
  }

  rotate(given?: RotateOptions): SignerSet {
    const to = readOptions('rotate', given, schema)
    const { set } = this.#current
    const f = to.f ?? set.f
    const nodes = to.nodes ?? (to.f === undefined ? set.signers.length : 3 * f + 1)
    const generation = this.#networks.length
    this.#networks.push(new Network(this.#curve, this.#seed, checkNodes(nodes, f), f, generation))
    return this.#current.set
  }
}

/**
 * How a report is forged:
 * - `signature`: a bit of one signature is changed.
 * - `signer`: other signers sign it, under the network's digest.
 * - `digest`: other signers sign it, under their own digest.
 * - `few`: it has only f signatures.
 * - `repeated`: it has one signature several times.
 * - `high-s`: one signature is replaced by its mirror image.
 * - `v`: one signature has a recovery id of 4.
 * - `context`: the epoch was changed after signing.
 * - `value`: the last field was changed after signing.
 */
export type Forgery = (typeof forgeries)[number]

export const forgeries = [
  'signature',
  'signer',
  'digest',
  'few',
  'repeated',
  'high-s',
  'v',
  'context',
  'value',
] as const

const BLOB = 8

function takeApart(fullReport: string): SignedParts {
  const words = fullReport.slice(2).match(/.{64}/g) ?? []
  const [digest = '', position = '', extraHash = ''] = words
  const rsAt = BLOB + Number.parseInt(words[BLOB - 1] ?? '', 16) / 32
  const count = Number.parseInt(words[rsAt] ?? '', 16)
  return {
    context: [digest, position, extraHash],
    blob: words.slice(BLOB, rsAt).join(''),
    rs: words.slice(rsAt + 1, rsAt + 1 + count),
    ss: words.slice(rsAt + 2 + count),
    vs: words[6] ?? '',
  }
}

function flipLastBit(hex: string): string {
  return hex.slice(0, -1) + (Number.parseInt(hex.slice(-1), 16) ^ 1).toString(16)
}

/** Forges a signed report. For `signer` and `digest`, the forgers' own network signs the report. */
export function forgeReport(fullReport: string, how: Forgery, forgers: Network): string {
  const parts = takeApart(fullReport)
  const { context, blob, rs, ss, vs } = parts
  const [digest, position, extraHash] = context
  const [s = '', ...otherSs] = ss
  const few = rs.length - 1
  const seqNr = Number.parseInt(position, 16)
  if (how === 'signer') return forgers.sign(blob, seqNr, digest)
  if (how === 'digest') return forgers.sign(blob, seqNr)
  const changes: Readonly<Record<typeof how, () => Partial<SignedParts>>> = {
    signature: () => ({ ss: [flipLastBit(s), ...otherSs] }),
    few: () => ({
      rs: rs.slice(0, few),
      ss: ss.slice(0, few),
      vs: vs.slice(0, 2 * few).padEnd(64, '0'),
    }),
    repeated: () => ({
      rs: rs.map(() => rs[0] as string),
      ss: ss.map(() => s),
      vs: vs.slice(0, 2).repeat(rs.length).padEnd(64, '0'),
    }),
    'high-s': () => ({
      ss: [word(secp256k1.CURVE.n - BigInt(`0x${s}`)), ...otherSs],
      vs: flipLastBit(vs.slice(0, 2)) + vs.slice(2),
    }),
    v: () => ({ vs: `04${vs.slice(2)}` }),
    context: () => ({ context: [digest, word(BigInt(`0x${position}`) + 256n), extraHash] }),
    value: () => ({ blob: flipLastBit(blob) }),
  }
  return encodeFullReport({ ...parts, ...changes[how]() })
}
