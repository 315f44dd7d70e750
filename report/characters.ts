import { fromHex, viewBytes } from '../platform/bytes.js'
import { areDigits as areDigitsOf } from './hex-digits.js'

/** True if the characters from `from` to before `to` are hexadecimal digits; their number is a multiple of sixteen. */
export type DigitCheck = (from: number, to: number) => boolean

interface Memory {
  readonly buffer: ArrayBuffer
}

/** The part of WebAssembly that is used. It is missing where Node runs with --jitless, for one. */
declare const WebAssembly:
  | {
      readonly Memory: new (pages: { initial: number; maximum: number }) => Memory
      readonly Module: new (bytes: Uint8Array) => object
      readonly Instance: new (
        module: object,
        imports: { readonly '': { readonly m: Memory } },
      ) => { readonly exports: { readonly f: (from: number, to: number) => number } }
    }
  | undefined

/** Bytes of a WebAssembly page. */
const PAGE = 65_536

/**
 * A module that checks sixteen characters at once, which JavaScript can't: (module (memory (import "" "m") 1)
 * (func (export "f") (param $at i32) (param $to i32) (result i32) …, its instructions below.
 */
const module = [
  '0061736d 01000000', // WebAssembly, version 1
  '01 07 01 60 02 7f7f 01 7f', // types: from two i32 to one
  '02 07 01 00 016d 02 00 01', // imports: "" "m", a memory of a page or more
  '03 02 01 00', // functions: one, of that type
  '07 05 01 0166 00 00', // exports: "f"
  '0a 52 01 50 02 017b 017b', // code: two locals of sixteen bytes, $all and $sixteen
  '417f fd0f 2102', //             $all = i8x16.splat(-1)
  '0340', //                       loop
  '2002', //                         $all, for the `and` below
  '2000 fd000000 2203', //           $sixteen = v128.load($at)
  '4130 fd0f fd71', //               less '0', which is i8x16.splat(48)
  '410a fd0f fd26', //               is below 10, as i8x16.lt_u has it
  '2003 4120 fd0f fd50', //          $sixteen in lower case: v128.or with 0x20
  '41e100 fd0f fd71', //             less 'a'
  '4106 fd0f fd26', //               is below 6
  'fd50 fd4e 2102', //               $all = $all and (the one or the other)
  '2000 4110 6a 2200', //            $at = $at + 16
  '2001 49 0d00', //                 again if $at is below $to
  '0b',
  '2002 fd63 0b', //               i8x16.all_true($all)
]

/** Makes a memory of so many bytes and a check of the characters in it; undefined where there is no WebAssembly. */
export function createDigitCheck(
  bytes: number,
): { readonly memory: ArrayBuffer; readonly check: DigitCheck } | undefined {
  try {
    if (typeof WebAssembly === 'undefined') return undefined
    const pages = Math.ceil(bytes / PAGE)
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages })
    const code = fromHex(module.join('').replaceAll(' ', ''))
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(code), { '': { m: memory } })
      .exports
    return { memory: memory.buffer, check: (from, to) => f(from, to) === 1 }
  } catch {
    // The address space may be exhausted.
    return undefined
  }
}

/**
 * The longest report that is read has 131,074 characters. The last one may take several bytes: if these did not fit, the
 * byte of an earlier report would remain in its place.
 */
const MAX_LENGTH = 131_080

const checked = createDigitCheck(MAX_LENGTH)

/**
 * The characters of the report or message that is being read, one byte each. Reading is synchronous, so there is one buffer
 * for all: each reader overwrites what the one before has read.
 */
export const buffer: Uint8Array = viewBytes(
  checked?.memory ?? new ArrayBuffer(MAX_LENGTH),
  MAX_LENGTH,
)
/** The same, as numbers. */
export const characters: DataView = new DataView(buffer.buffer, buffer.byteOffset, MAX_LENGTH)

/** Checks characters in the buffer. */
export const areDigits: DigitCheck =
  checked?.check ?? ((from, to) => areDigitsOf(characters, from, to))
