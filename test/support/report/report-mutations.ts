// Reports broken in every way a wire, a bug or an attacker might break them.
import {
  feedIDOf,
  fieldsOf,
  type Hex,
  type Resolution,
  randomFrom,
  resolutions,
  versions,
} from './report-arbitrary.js'

/** The arguments of a decoder. */
export interface Input {
  readonly feedID: string
  readonly fullReport: string
}

/** The report that mutants are made of. */
export interface Original {
  readonly version: number
  readonly resolution: Resolution
  readonly feedID: Hex
  readonly fullReport: Hex
}

interface Dice {
  /** 0 to `limit - 1`. */
  below(limit: number): number
  pick<Item>(items: readonly Item[]): Item
}

type Mutation = (input: Input, dice: Dice, original: Original) => Input

/** Hexadecimal digits of a word. */
const WORD = 64
const DIGITS = [...'0123456789abcdef']
const WORDS_BEFORE_BLOB = 8

const word = (value: bigint): string => BigInt.asUintN(256, value).toString(16).padStart(WORD, '0')

/** Offsets, lengths and values that overflow, point backwards, between words or into other parts. */
const hostileWords = [
  ...[0n, 1n, 2n, 31n, 32n, 33n, 63n, 64n, 65n, 96n, 192n, 224n, 256n, 288n, 320n, 1024n, 65_536n],
  ...[
    8, 16, 31, 32, 33, 48, 52, 53, 54, 63, 64, 65, 127, 128, 190, 191, 192, 193, 254, 255,
  ].flatMap(bits => [
    2n ** BigInt(bits),
    2n ** BigInt(bits) - 1n,
    -(2n ** BigInt(bits)),
    -(2n ** BigInt(bits)) - 1n,
  ]),
  ...[
    -1n,
    -2n,
    -31n,
    -32n,
    -33n,
    -224n,
    2n ** 256n - 32n,
    2n ** 53n + 1n,
    2n ** 32n + 32n,
    2n ** 64n + 224n,
  ],
].map(word)

/** Steps from the true value of an offset, a length or a count. */
const steps = [
  -224n,
  -64n,
  -33n,
  -32n,
  -31n,
  -2n,
  -1n,
  1n,
  2n,
  31n,
  32n,
  33n,
  64n,
  224n,
  2n ** 32n,
  2n ** 53n,
]

/**
 * No hexadecimal digits, though some look like one, some have the low byte of one, and some pass for a digit with
 * parseInt or Number.
 */
const strangers = [
  ...[
    'g',
    'G',
    'x',
    'X',
    ' ',
    '\t',
    '\n',
    '\r',
    '\0',
    '-',
    '+',
    '.',
    '_',
    '/',
    ':',
    '@',
    '`',
    '{',
    'O',
    'l',
    '\x7f',
  ],
  ...['\x80', '\xa0', '\xb0', '\xb2', '\xe6', '\xff'],
  ...DIGITS.map(digit => String.fromCharCode(0x100 + digit.charCodeAt(0))),
  ...DIGITS.map(digit => String.fromCharCode(0xff00 + digit.charCodeAt(0))),
  ...['０', '９', 'ａ', 'ｆ', 'Ａ', 'Ｆ', '\u0430', '\u0410', '\u0660', '\u06f1', '\u0966'],
  ...[
    '\ud835\udfce',
    '\ud835\udc1a',
    '\ud800',
    '\udc00',
    '\ufeff',
    '\u200b',
    '\u2028',
    '\u212a',
    '\u0131',
  ],
]

const prefixes = ['0X', '', '0', 'x', '00', '0x0x', ' 0x', '\\x', '0\u0445', '０x', '-0x', '0x ']

function wordCount(text: string): number {
  return Math.max(1, Math.floor((text.length - 2) / WORD))
}

function splice(text: string, at: number, remove: number, insert: string): string {
  return text.slice(0, at) + insert + text.slice(at + remove)
}

function wordAt(text: string, index: number): string {
  return text.slice(2 + WORD * index, 2 + WORD * (index + 1))
}

function setWord(text: string, index: number, value: string): string {
  return splice(text, 2 + WORD * index, WORD, value)
}

function numberIn(text: string, index: number): number {
  return Number.parseInt(wordAt(text, index).slice(-12), 16)
}

/** The words of an intact report that hold offsets, lengths and counts. */
function structure({ version, resolution, fullReport }: Original): number[] {
  const rs = WORDS_BEFORE_BLOB + numberIn(fullReport, WORDS_BEFORE_BLOB - 1) / 32
  const ss = rs + 1 + numberIn(fullReport, rs)
  const fields = fieldsOf(version, resolution)
  const strings = fields.flatMap(({ type }, index) => (type === 'string' ? [index] : []))
  return [
    ...[3, 4, 5, 7, rs, ss],
    ...strings.flatMap(index => [
      WORDS_BEFORE_BLOB + index,
      WORDS_BEFORE_BLOB + fields.length,
      WORDS_BEFORE_BLOB + fields.length,
    ]),
  ]
}

/** A place in the text; the blob is where the most can go wrong, so half of them are there. */
function place(text: string, dice: Dice): number {
  if (dice.below(2) === 0) return 2 + dice.below(Math.max(1, text.length - 2))
  const start = 2 + WORD * WORDS_BEFORE_BLOB
  return Math.min(start + dice.below(WORD * 18), Math.max(0, text.length - 1))
}

function anyWord(text: string, dice: Dice): number {
  const words = wordCount(text)
  return dice.below(2) === 0
    ? dice.below(words)
    : Math.min(WORDS_BEFORE_BLOB + dice.below(18), words - 1)
}

function inText(change: (text: string, dice: Dice, original: Original) => string): Mutation {
  return (input, dice, original) => ({
    ...input,
    fullReport: change(input.fullReport, dice, original),
  })
}

function otherFeed(dice: Dice, original: Original): string {
  const rest = `0x${original.feedID.slice(6)}`
  switch (dice.below(5)) {
    case 0:
      return feedIDOf(dice.pick(versions), original.resolution, BigInt(rest))
    case 1:
      return feedIDOf(original.version, dice.pick(resolutions), BigInt(rest))
    case 2:
      return feedIDOf(dice.pick([0, 1, 15, 256, 4095]), dice.pick(resolutions), BigInt(rest))
    case 3:
      return feedIDOf(
        original.version,
        original.resolution,
        BigInt(rest) ^ (1n << BigInt(dice.below(240))),
      )
    default:
      return `0x${dice.pick(DIGITS)}${original.feedID.slice(3)}`
  }
}

const mutations: readonly Mutation[] = [
  // a bit
  inText((text, dice) => {
    const at = place(text, dice)
    const digit = Number.parseInt(text[at] ?? '0', 16)
    return splice(
      text,
      at,
      1,
      ((Number.isNaN(digit) ? 0 : digit) ^ (1 << dice.below(4))).toString(16),
    )
  }),
  // a nibble
  inText((text, dice) => splice(text, place(text, dice), 1, dice.pick(DIGITS))),
  // a byte
  inText((text, dice) =>
    splice(text, place(text, dice) & ~1, 2, dice.pick(DIGITS) + dice.pick(DIGITS)),
  ),
  // a digit too many or too few
  inText((text, dice) => splice(text, place(text, dice), 0, dice.pick(DIGITS))),
  inText((text, dice) => splice(text, place(text, dice), 1 + dice.below(3), '')),
  // cut short
  inText((text, dice) => text.slice(0, dice.below(text.length + 1))),
  inText((text, dice) => text.slice(0, 2 + WORD * dice.below(wordCount(text) + 1))),
  // too long
  inText((text, dice) => text + '0'.repeat(1 + dice.below(70))),
  inText((text, dice) => text + dice.pick(hostileWords).repeat(1 + dice.below(3))),
  // words that change places, are doubled or are left out
  inText((text, dice) => {
    const [one, other] = [anyWord(text, dice), anyWord(text, dice)]
    return setWord(setWord(text, one, wordAt(text, other)), other, wordAt(text, one))
  }),
  inText((text, dice) =>
    splice(text, 2 + WORD * anyWord(text, dice), 0, wordAt(text, anyWord(text, dice))),
  ),
  inText((text, dice) => splice(text, 2 + WORD * anyWord(text, dice), WORD, '')),
  // offsets, lengths and counts
  inText((text, dice, original) =>
    setWord(text, dice.pick(structure(original)), dice.pick(hostileWords)),
  ),
  inText((text, dice, original) => {
    const at = dice.pick(structure(original))
    return setWord(text, at, word(BigInt(numberIn(text, at) || 0) + dice.pick(steps)))
  }),
  // values outside their type
  inText((text, dice) => setWord(text, anyWord(text, dice), dice.pick(hostileWords))),
  // what is no digit, and what is one in capitals
  inText((text, dice) => splice(text, place(text, dice), 1, dice.pick(strangers))),
  inText((text, dice) => splice(text, place(text, dice), 0, dice.pick(strangers))),
  inText((text, dice) => text + dice.pick(strangers)),
  inText((text, dice) => {
    const at = place(text, dice)
    const length = 1 + dice.below(100)
    return splice(text, at, length, text.slice(at, at + length).toUpperCase())
  }),
  inText(text => `0x${text.slice(2).toUpperCase()}`),
  inText((text, dice) => dice.pick(prefixes) + text.slice(2)),
  inText((_text, dice) => dice.pick(['', '0', '0x', '0x0', '0x00', 'null', '[]'])),
  // asked for as another feed's, and signed for it as well
  (input, dice, original) => ({ ...input, feedID: otherFeed(dice, original) }),
  (input, dice, original) => {
    const feedID = otherFeed(dice, original)
    return { feedID, fullReport: setWord(input.fullReport, WORDS_BEFORE_BLOB, feedID.slice(2)) }
  },
  input => ({ ...input, feedID: `0x${input.feedID.slice(2).toUpperCase()}` }),
]

/** `count` mutants of a report, each with one to three mutations; the seed says which. */
export function* mutants(original: Original, seed: number, count: number): Generator<Input> {
  const random = randomFrom(seed)
  const dice: Dice = {
    below: limit => random() % limit,
    pick: items => items[random() % items.length] as (typeof items)[number],
  }
  for (let made = 0; made < count; made++) {
    let input: Input = { feedID: original.feedID, fullReport: original.fullReport }
    const changes = dice.pick([1, 1, 1, 2, 3])
    for (let change = 0; change < changes; change++)
      input = dice.pick(mutations)(input, dice, original)
    yield input
  }
}
