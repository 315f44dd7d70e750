// JSON whose values are wrong, and JSON that says the same in other words.
import type { Dice } from '../../fuzz/dice.js'
import { mutateText, randomText } from './mutations.js'

/** What JSON.parse may give. */
export type JSONValue =
  | null
  | boolean
  | number
  | string
  | readonly JSONValue[]
  | { readonly [name: string]: JSONValue }

const names = [
  '__proto__',
  'constructor',
  'toString',
  'report',
  'reports',
  'feedID',
  'then',
  '',
  'a',
]

function nested(dice: Dice): JSONValue {
  let value: JSONValue = 1
  for (let depth = dice.length(6); depth > 0; depth--)
    value = dice.once(2) ? [value] : own([[dice.pick(names), value]])
  return value
}

/** A value that was not expected in its place. */
function hostile(dice: Dice): JSONValue {
  switch (dice.below(12)) {
    case 0:
      return null
    case 1:
      return dice.once(2)
    case 2:
      return dice.pick([0, -0, -1, 1.5, 1e308, 2 ** 53, 2 ** 53 - 1, 2 ** 32, 5e-324, 1e21])
    case 3:
      return []
    case 4:
      return {}
    case 5:
      return nested(dice)
    case 6:
      return Array.from({ length: dice.length(8) }, () => dice.below(10))
    case 7:
      return own(Array.from({ length: dice.length(6) }, (_, at) => [`k${at}`, at]))
    case 8:
      return own([['__proto__', own([[dice.pick(names), 1]])]])
    case 9:
      return dice.pick(['', '\0', '\ud800', '__proto__', '0x', '5s', '1e9', ' ', '\ufeff'])
    default:
      return randomText(dice)
  }
}

/** As JSON.parse does it: `__proto__` is a name like others. */
function own(entries: readonly (readonly [string, JSONValue])[]): JSONValue {
  return Object.fromEntries(entries)
}

function isObject(value: JSONValue): value is { readonly [name: string]: JSONValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** One thing is other in what comes back: somewhere in it, each place as likely. */
export function mutateJSON(value: JSONValue, dice: Dice): JSONValue {
  if (Array.isArray(value) && value.length > 0 && !dice.once(4)) {
    const items = [...value]
    const at = dice.below(items.length)
    const kind = dice.below(6)
    if (kind === 0) items.splice(at, 1)
    else if (kind === 1) items.push(items[at] as JSONValue)
    else items[at] = mutateJSON(items[at] as JSONValue, dice)
    return items
  }
  if (isObject(value) && !dice.once(6)) {
    const entries = Object.entries(value)
    if (entries.length === 0) return own([[dice.pick(names), hostile(dice)]])
    const at = dice.below(entries.length)
    const [name, inner] = entries[at] as [string, JSONValue]
    const [, other] = dice.pick(entries)
    switch (dice.below(7)) {
      case 0:
        entries.splice(at, 1)
        break
      case 1:
        entries.push([dice.pick(names), hostile(dice)])
        break
      case 2:
        entries[at] = [mutateText([name], dice), inner]
        break
      case 3:
        entries[at] = [name, other]
        break
      default:
        entries[at] = [name, mutateJSON(inner, dice)]
    }
    return own(entries)
  }
  if (typeof value === 'string' && !dice.once(4)) return mutateText([value], dice)
  if (typeof value === 'number' && !dice.once(4))
    return dice.pick([value + 1, value - 1, -value, value * 1000, value + 0.5, value * 2 ** 40])
  return hostile(dice)
}

/** How a text may differ that says the same. */
export interface Wording {
  readonly space: boolean
  readonly escapes: boolean
  readonly numbers: boolean
  readonly order: boolean
  /** Names that come twice: the last one counts. */
  readonly doubles: boolean
}

export function anyWording(dice: Dice): Wording {
  const isPlain = dice.once(3)
  const some = (): boolean => !isPlain && dice.once(3)
  return { space: some(), escapes: some(), numbers: some(), order: some(), doubles: some() }
}

/** JSON text of a value, in some wording. */
export function writeJSON(value: JSONValue, dice: Dice, wording: Wording): string {
  const blank = (): string =>
    wording.space && dice.once(2) ? dice.pick([' ', '  ', '\t', '\n', '\r\n', ' \n\t ']) : ''
  const list = (parts: readonly string[], open: string, close: string): string =>
    `${blank()}${open}${parts.map(part => `${blank()}${part}${blank()}`).join(',')}${close}${blank()}`
  if (Array.isArray(value))
    return list(
      value.map(item => writeJSON(item, dice, wording)),
      '[',
      ']',
    )
  if (isObject(value)) {
    const entries = Object.entries(value)
    if (wording.order && dice.once(2)) entries.reverse()
    else if (wording.order && entries.length > 1) entries.push(...entries.splice(0, 1))
    const written = entries.map(
      ([name, inner]) =>
        `${writeString(name, dice, wording)}${blank()}:${blank()}${writeJSON(inner, dice, wording)}`,
    )
    if (wording.doubles && entries.length > 0)
      written.unshift(
        `${writeString((dice.pick(entries) as [string, JSONValue])[0], dice, wording)}:${JSON.stringify(hostile(dice))}`,
      )
    return list(written, '{', '}')
  }
  if (typeof value === 'string') return writeString(value, dice, wording)
  if (typeof value === 'number' && wording.numbers) return writeNumber(value, dice)
  return JSON.stringify(value)
}

function writeString(text: string, dice: Dice, { escapes }: Wording): string {
  const plain = JSON.stringify(text)
  if (!escapes || text === '') return plain
  const at = dice.below(text.length)
  const code = text.charCodeAt(at).toString(16).padStart(4, '0')
  const escaped = `\\u${dice.once(2) ? code : code.toUpperCase()}`
  const before = JSON.stringify(text.slice(0, at)).slice(0, -1)
  return `${before}${escaped}${JSON.stringify(text.slice(at + 1)).slice(1)}`
}

function writeNumber(value: number, dice: Dice): string {
  return dice.pick([
    String(value),
    value.toExponential(),
    value.toExponential().toUpperCase(),
    `${value}.0`,
    `${value}e0`,
    `${value}0e-1`,
    `0${value}`,
    `+${value}`,
    `${value}.`,
  ])
}
