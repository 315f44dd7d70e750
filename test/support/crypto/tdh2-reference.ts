import { type Bytes, defaultCrypto, type WebCrypto } from '../../../crypto/crypto.js'
import { readVectors } from '../files.js'

/** Output of the reference implementation in Go, which `meta` in the file names. Its private keys are public. */

export interface ReferenceCase {
  readonly name: string
  readonly label_hex: string
  readonly plaintext_b64: string
  readonly combined_plaintext_b64: string
  readonly ciphertext_json: string
  readonly ciphertext_length: number
  readonly tdh2_ctxt_json_decoded: string
  readonly decryption_shares_json: readonly string[]
  readonly combinations_that_decrypt: readonly (readonly number[])[]
  readonly deterministic_inputs?: {
    readonly r_hex: string
    readonly s_hex: string
    readonly sym_key_hex: string
    readonly nonce_hex: string
    readonly decryption_share_s_i_hex: readonly string[]
  }
}

export interface ReferenceSet {
  readonly name: string
  readonly k: number
  readonly n: number
  readonly public_key_json: string
  readonly public_key_hex_of_json: string
  readonly master_secret_json: string
  readonly private_shares_json: readonly string[]
  readonly keygen: {
    readonly g_bar_scalar_hex: string
    readonly polynomial_coefficients_hex: readonly string[]
  }
  readonly cases: readonly ReferenceCase[]
}

export type Negative = { readonly kind: string; readonly name: string } & Readonly<
  Record<string, string>
>

interface Reference {
  readonly meta: { readonly order_hex: string }
  readonly hashes: readonly [
    { readonly preimage_utf8: string; readonly points_hex: readonly string[]; digest_hex: string },
    {
      readonly c_hex: string
      readonly label_hex: string
      readonly points_hex_u_w_ubar_wbar: readonly string[]
      readonly scalar_hex: string
    },
    { readonly points_hex_ui_uhat_hhat: readonly string[]; readonly scalar_hex: string },
    { readonly examples: readonly { readonly bytes_hex: string; readonly scalar_hex: string }[] },
  ]
  readonly sizes: {
    readonly by_n: Readonly<
      Record<
        string,
        { readonly public_key_json: number; readonly decryption_share_json_last_index: number }
      >
    >
    readonly max_plaintext_for_2000_byte_ciphertext_json: number
    readonly table: readonly { readonly plaintext: number; readonly ciphertext_json: number }[]
  }
  readonly sets: readonly ReferenceSet[]
  readonly negative_3of5_short: readonly Negative[]
}

export const reference: Reference = readVectors('tdh2.json')

export function setOf(name: string): ReferenceSet {
  const set = reference.sets.find(each => each.name === name)
  if (set === undefined) throw new Error(`there is no set ${name}`)
  return set
}

export function caseOf(set: ReferenceSet, name: string): ReferenceCase {
  const found = set.cases.find(each => each.name === name)
  if (found === undefined) throw new Error(`there is no case ${name}`)
  return found
}

export const fromHex = (digits: string): Uint8Array =>
  Uint8Array.from(digits.match(/../g) ?? [], byte => Number.parseInt(byte, 16))
export const toHex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
export const toScalar = (digits: string): bigint => BigInt(`0x${digits}`)

/** Gives these scalars, one a call, and no more. */
export function giving(...digits: readonly string[]): () => bigint {
  const left = [...digits]
  return () => {
    const next = left.shift()
    if (next === undefined) throw new Error('one scalar too many was drawn')
    return toScalar(next)
  }
}

/** The default provider, but with these for random bytes. */
export async function cryptoGiving(...digits: readonly string[]): Promise<WebCrypto> {
  const left = [...digits]
  const { subtle } = await defaultCrypto()
  return {
    subtle,
    getRandomValues(array: Bytes): Bytes {
      const bytes = fromHex(left.shift() ?? '')
      if (bytes.byteLength !== array.byteLength)
        throw new Error('other random bytes were asked for')
      array.set(bytes)
      return array
    },
  }
}
