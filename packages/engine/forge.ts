import { encodeFullReport, type SignedParts, word } from './encode.js'
import { mirrored, type Network } from './network.js'

/**
 * How a report is forged: a bit of a `signature` is changed; others sign under the network's digest (`signer`) or
 * under one of their own (`digest`); it has `few` signatures, only f of them, or one `repeated`; a signature is
 * replaced by its mirror image (`high-s`) or has a recovery id of 4 (`v`); the epoch (`context`) or the last field
 * (`value`) was changed after it was signed.
 */
export type Forgery =
  | 'signature'
  | 'signer'
  | 'digest'
  | 'few'
  | 'repeated'
  | 'high-s'
  | 'v'
  | 'context'
  | 'value'

/** Changes a signed report. */
export type Forge = (fullReport: string, how: Forgery) => string

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

/** A forge with other signers, for reports that the network does not sign. */
export function createForge(others: Network): Forge {
  return function forge(fullReport, how) {
    const parts = takeApart(fullReport)
    const { context, blob, rs, ss, vs } = parts
    const [digest, position, extraHash] = context
    const [s = '', ...otherSs] = ss
    const few = rs.length - 1
    const seqNr = Number.parseInt(position, 16)
    if (how === 'signer') return others.sign(blob, seqNr, digest)
    if (how === 'digest') return others.sign(blob, seqNr)
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
        ss: [mirrored(s), ...otherSs],
        vs: flipLastBit(vs.slice(0, 2)) + vs.slice(2),
      }),
      v: () => ({ vs: `04${vs.slice(2)}` }),
      context: () => ({ context: [digest, word(BigInt(`0x${position}`) + 256n), extraHash] }),
      value: () => ({ blob: flipLastBit(blob) }),
    }
    return encodeFullReport({ ...parts, ...changes[how]() })
  }
}
