import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { adviseName, checkOptions, unknownName } from '../../core/options.js'

const names = ['order', 'maxBackfill', 'reorderTimeout', 'reorderBuffer', 'f']

describe('the nearest name', () => {
  test.each([
    ['maxBackfil', 'maxBackfill'],
    ['maxbackfill', 'maxBackfill'],
    ['maxBakcfill', 'maxBackfill'],
    ['max_backfill', 'maxBackfill'],
    ['oder', 'order'],
    ['roder', 'order'],
    ['orders', 'order'],
    // The one with fewer edits, and of two the first.
    ['reorderBufer', 'reorderBuffer'],
    ['reorderTimoeut', 'reorderTimeout'],
    ['F', 'f'],
  ])('of %s is %s', (misspelt, name) => {
    expect(adviseName(misspelt, names)).toBe(`did you mean '${name}'?`)
  })

  test.each(['', 'x', 'backfill!', 'window', 'ordnung', 'constructor', '__proto__'])(
    'of %j is none: all are named',
    name => {
      expect(adviseName(name, names)).toBe(`there is ${names.join(', ')}`)
    },
  )

  test('is found after any one edit', () => {
    const letter = fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz')
    fc.assert(
      fc.property(
        fc.array(letter, { minLength: 4, maxLength: 12 }).map(letters => letters.join('')),
        fc.nat(),
        letter,
        fc.constantFrom('add', 'remove', 'replace', 'swap'),
        (name, place, added, edit) => {
          const at = place % (name.length - 1)
          const [before, rest] = [name.slice(0, at), name.slice(at)]
          const edited = {
            add: `${before}${added}${rest}`,
            remove: `${before}${rest.slice(1)}`,
            replace: `${before}${added}${rest.slice(1)}`,
            swap: `${before}${rest[1]}${rest[0]}${rest.slice(2)}`,
          }[edit]
          expect(adviseName(edited, ['0123456789', name])).toBe(`did you mean '${name}'?`)
        },
      ),
    )
  })
})

test('a name that may be a secret is not shown whole, and is quickly compared', () => {
  const secret = 'ab'.repeat(500_000)
  const { message } = unknownName('option', secret, names, 'continuity')
  expect(message).toBe(`unknown option 'abababab…' of continuity; there is ${names.join(', ')}`)
})

describe('checkOptions', () => {
  const known = { order: true, window: true } as const
  const check = (value: unknown) =>
    checkOptions<{ order?: string; window?: number }>('it', value as object | undefined, known)

  test('returns the options, or none', () => {
    const given = { order: 'sorted' }
    expect(check(given)).toBe(given)
    expect(check(Object.create(null))).toEqual({})
    expect(check(undefined)).toEqual({})
  })

  test.each([
    [{ toString: 1 }, "unknown option 'toString' of it; there is order, window"],
    [{ ordr: undefined }, "unknown option 'ordr' of it; did you mean 'order'?"],
    [null, 'it takes an object of options, not null'],
    [[], 'it takes an object of options, not an array'],
    ['order', 'it takes an object of options, not string'],
    [() => undefined, 'it takes an object of options, not function'],
  ])('rejects %j', (value, message) => {
    expect(() => check(value)).toThrow(expect.objectContaining({ code: 'VALIDATION', message }))
  })

  test('needs every name of the interface, and no other: the type checker says so', () => {
    const given = {} as { order?: string; window?: number }
    // @ts-expect-error window is missing
    checkOptions('it', given, { order: true })
    // @ts-expect-error depth is no name of the interface
    checkOptions('it', given, { order: true, window: true, depth: true })
  })
})
