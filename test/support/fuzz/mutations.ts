// Valid inputs, broken in the ways a wire, a bug or an attacker might break them.
import type { Dice } from '../../fuzz/dice.js'

/** What parsers stumble over: what is no text, no number, no name, or more of each than anybody needs. */
const tokens: readonly string[] = [
  ...['null', 'true', 'false', '{}', '[]', '""', '[{}]', '{"":{}}', 'undefined', 'NaN', 'Infinity'],
  ...['0', '-0', '-1', '1.5', '1e3', '1E+2', '1e400', '-1e400', '1e-400', '00', '01', '+1', '.5'],
  ...['4294967295', '4294967296', '9007199254740991', '9007199254740992', '9007199254740993'],
  ...['1'.repeat(400), `1${'0'.repeat(30)}`, '0x10', '1_000', '1n'],
  ...['"__proto__"', '"__proto__":{"report":1},', '"constructor"', '"toString"', '"length"'],
  ...['\\', '\\u', '\\u0000', '\\ud800', '\\udc00', '\\u0022', '\\x41', '\\n', '\\"', '\\/'],
  ...['\0', '\x01', '\x1f', '\x7f', '\ud800', '\udc00', '\u2028', '\u2029', '\ufeff', '\u200b'],
  ...[' ', '\t', '\n', '\r\n', '\v', '\u00a0', ',', ':', ';', '"', "'", '`', '{', '}', '[', ']'],
  ...['{{', '}}', '{{.', '{{- ', ' -}}', '{{/*', '*/}}', '{{.a}}', '/*', '//', '<!--', '<html>'],
  ...['=', '==', '+', '-', '_', '/', '.', '%', '%00', '\r\nX-Injected: 1', '🙂', 'é', 'ﬀ', 'İ'],
]

const NESTING = 4000

/** A run of one token, as long as it takes to overflow what recurses and to stall what looks back. */
function run(dice: Dice): string {
  const token = dice.pick([
    '[',
    '{"a":',
    '((',
    '{{',
    '{{/*',
    ' ',
    '0',
    'a',
    '\\',
    '"',
    '=',
    ',',
    '9',
  ])
  return token.repeat(dice.length(dice.once(50) ? Math.log2(NESTING) : 6))
}

/** Text of any characters; now and then of hexadecimal digits, of base64 or of what JSON is made of. */
export function randomText(dice: Dice): string {
  const length = dice.length(dice.once(500) ? 16 : 9)
  const alphabet = dice.pick([
    '0123456789abcdefABCDEFx',
    'ABCDEFabcdef0189+/=',
    '{}[]",:0189.eE+-\\u ',
    '',
  ])
  let text = ''
  for (let at = 0; at < length; at++) {
    if (alphabet !== '') text += alphabet[dice.below(alphabet.length)]
    else text += String.fromCharCode(dice.below(dice.once(3) ? 0x10000 : 0x80))
  }
  return text
}

/** Bytes of any value. */
export function randomBytes(dice: Dice): Uint8Array {
  return Uint8Array.from({ length: dice.length(10) }, () => dice.below(256))
}

function splice(text: string, at: number, remove: number, insert: string): string {
  return text.slice(0, at) + insert + text.slice(at + remove)
}

const digits = '0123456789abcdefABCDEF'

type TextMutation = (text: string, dice: Dice, others: readonly string[]) => string

const textMutations: readonly TextMutation[] = [
  // a bit, a character
  (text, dice) => {
    const at = dice.below(text.length)
    const code = (text.charCodeAt(at) || 0) ^ (1 << dice.below(dice.once(4) ? 16 : 7))
    return splice(text, at, 1, String.fromCharCode(code))
  },
  (text, dice) => splice(text, dice.below(text.length), 1, digits[dice.below(22)] as string),
  (text, dice) => splice(text, dice.below(text.length), 1, dice.pick(tokens)),
  // cut short, cut out, put in
  (text, dice) => text.slice(0, dice.below(text.length + 1)),
  (text, dice) => text.slice(dice.below(text.length + 1)),
  (text, dice) => splice(text, dice.below(text.length), 1 + dice.length(6), ''),
  (text, dice) => splice(text, dice.below(text.length + 1), 0, dice.pick(tokens)),
  (text, dice) => splice(text, dice.below(text.length + 1), 0, run(dice)),
  (text, dice) => splice(text, dice.below(text.length + 1), 0, randomText(dice)),
  (text, dice) => text + dice.pick(tokens),
  (text, dice) => dice.pick(tokens) + text,
  // doubled, moved
  (text, dice) => {
    const from = dice.below(text.length)
    const part = text.slice(from, from + 1 + dice.length(8))
    return splice(text, dice.below(text.length + 1), 0, part)
  },
  (text, dice) => {
    const [one, other] = [dice.below(text.length), dice.below(text.length)]
    const length = 1 + dice.length(5)
    const moved = text.slice(one, one + length)
    return splice(splice(text, one, length, ''), other, 0, moved)
  },
  // half of one and half of another
  (text, dice, others) => {
    const other = dice.pick(others)
    return text.slice(0, dice.below(text.length)) + other.slice(dice.below(other.length))
  },
  // case
  (text, dice) => {
    const from = dice.below(text.length)
    const to = from + dice.length(7)
    const part = text.slice(from, to)
    return splice(text, from, part.length, dice.once(2) ? part.toUpperCase() : part.toLowerCase())
  },
]

/** A text like those given: one of them, another text altogether, or one with up to four changes. */
export function mutateText(texts: readonly string[], dice: Dice): string {
  const kind = dice.below(16)
  if (kind === 0) return randomText(dice)
  let text = dice.pick(texts)
  if (kind === 1) return text
  for (let changes = 1 + dice.length(2); changes > 0; changes--)
    text = dice.pick(textMutations)(text, dice, texts)
  return text
}

type ByteMutation = (bytes: Uint8Array, dice: Dice) => Uint8Array

const byteMutations: readonly ByteMutation[] = [
  (bytes, dice) => {
    const at = dice.below(bytes.length)
    const changed = bytes.slice()
    changed[at] = (changed[at] ?? 0) ^ (1 << dice.below(8))
    return changed
  },
  (bytes, dice) => {
    const changed = bytes.slice()
    changed[dice.below(bytes.length)] = dice.pick([0, 1, 0x7f, 0x80, 0xc0, 0xed, 0xf8, 0xfe, 0xff])
    return changed
  },
  (bytes, dice) => bytes.slice(0, dice.below(bytes.length + 1)),
  (bytes, dice) => bytes.slice(dice.below(bytes.length + 1)),
  (bytes, dice) => {
    const at = dice.below(bytes.length + 1)
    return Buffer.concat([bytes.slice(0, at), randomBytes(dice), bytes.slice(at)])
  },
  (bytes, dice) => {
    const at = dice.below(bytes.length + 1)
    return Buffer.concat([bytes.slice(0, at), bytes.slice(at + 1 + dice.length(5))])
  },
  (bytes, dice) => Buffer.concat([bytes, bytes.slice(0, dice.below(64))]),
]

/** Bytes like those given. */
export function mutateBytes(samples: readonly Uint8Array[], dice: Dice): Uint8Array {
  const kind = dice.below(16)
  if (kind === 0) return randomBytes(dice)
  let bytes = dice.pick(samples)
  if (kind === 1) return bytes
  for (let changes = 1 + dice.length(2); changes > 0; changes--)
    bytes = dice.pick(byteMutations)(bytes, dice)
  return bytes
}
