import fc from 'fast-check'

const SURROGATES = 0x800
const FIRST_SURROGATE = 0xd800
const MOST = 0x10ffff

/**
 * Any character, as the `unit` of a string: a code point that is no half of a pair. For a unit of its own, fast-check first makes a list of
 * all code points, which takes most of a second.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .oneof(fc.nat(0x7f), fc.nat(MOST - SURROGATES))
  .map(number => String.fromCodePoint(number < FIRST_SURROGATE ? number : number + SURROGATES))
