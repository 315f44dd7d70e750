import {
  parseCiphertext,
  parseDecryptionShare,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
} from '../../../crypto/tdh2/index.js'
import { caseOf, setOf } from '../../support/crypto/tdh2-reference.js'
import type { Target } from '../../support/fuzz/fuzz.js'
import type { JSONValue } from '../../support/fuzz/json-mutations.js'
import { assert, json, makeJSON, text } from '../../support/fuzz/target.js'
import type { Dice } from '../dice.js'

const set = setOf('3of5')
const sealedCase = caseOf(set, 'short')
const publicKey = parsePublicKey(set.public_key_json)
const parsed = (text: string): JSONValue => JSON.parse(text)

/** The outer JSON, and the inner that it holds in base64, mutated apart. */
function makeCiphertext(dice: Dice): string {
  const outer = parsed(sealedCase.ciphertext_json) as { readonly TDH2Ctxt: string }
  if (dice.once(3)) return makeJSON([outer], dice)
  const inner = parsed(Buffer.from(outer.TDH2Ctxt, 'base64').toString())
  const changed = Buffer.from(makeJSON([inner], dice)).toString('base64')
  return JSON.stringify({ ...outer, TDH2Ctxt: changed })
}

export const tdh2: readonly Target<string>[] = [
  {
    ...text('TDH2: ciphertexts', [], each => parseCiphertext(publicKey, each)),
    make: makeCiphertext,
    share: 0.1,
  },
  json(
    'TDH2: decryption shares',
    sealedCase.decryption_shares_json.map(parsed),
    parseDecryptionShare,
    {
      check(result) {
        if (result === undefined) return
        const { index } = result as { index: number }
        assert(Number.isSafeInteger(index) && index >= 0, 'an index')
      },
    },
  ),
  json('TDH2: public keys', [parsed(set.public_key_json)], parsePublicKey),
  json('TDH2: private shares', set.private_shares_json.map(parsed), parsePrivateShare),
  json('TDH2: master secrets', [parsed(set.master_secret_json)], parseMasterSecret),
]
