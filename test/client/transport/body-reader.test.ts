import { describe, expect, test } from '@jest/globals'
import { BodyReader } from '../../../client/transport/body-reader.js'

const MOST = 16_384
const piecesOf = (bytes: Uint8Array, size: number): readonly Uint8Array[] =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.slice(at * size, (at + 1) * size),
  )

const some = Uint8Array.from({ length: 10_000 }, (_, at) => at % 251)

describe('the reader of a body', () => {
  test.each([1, 3, 4096, 9999, 10_000])(
    'puts pieces of %i bytes together, in memory of their size',
    size => {
      const body = new BodyReader(some.length)
      for (const piece of piecesOf(some, size)) {
        expect(body.add(piece)).toBeUndefined()
        // Whoever has a piece may use its memory again.
        piece.fill(0)
      }
      const taken = body.take()
      expect(Buffer.compare(taken, some)).toBe(0)
      expect(taken.buffer.byteLength).toBe(some.length)
    },
  )

  test('of nothing has nothing', () => {
    expect(new BodyReader(0).take()).toEqual(new Uint8Array())
  })

  test('refuses a byte too many, and goes on to count', () => {
    const body = new BodyReader(10)
    expect([body.add(new Uint8Array(10)), body.add(new Uint8Array(1))]).toEqual([
      undefined,
      'bytes',
    ])
    expect([body.add(new Uint8Array(5)), body.size]).toEqual(['bytes', 16])
  })

  test.each([
    [MOST, 1, undefined],
    [MOST + 1, 1, 'pieces'],
    [MOST + 1, 255, 'pieces'],
    [3 * MOST, 256, undefined],
  ])('of %i pieces of %i bytes says %s', (count, size, excess) => {
    const body = new BodyReader(Number.POSITIVE_INFINITY)
    const piece = new Uint8Array(size)
    let last: string | undefined
    for (let at = 0; at < count; at++) last = body.add(piece)
    expect(last).toBe(excess)
    // A body that was refused stays refused.
    if (excess !== undefined) expect(body.add(new Uint8Array(10_000_000))).toBe(excess)
  })

  test('leaves no readable memory behind', () => {
    const seen: Uint8Array[] = []
    class Watched extends Uint8Array {
      override set(...given: Parameters<Uint8Array['set']>): void {
        seen.push(this)
        super.set(...given)
      }
    }
    const platform = globalThis.Uint8Array
    globalThis.Uint8Array = Watched as unknown as Uint8ArrayConstructor
    try {
      const body = new BodyReader(20_000)
      for (const piece of piecesOf(some, 100)) body.add(piece)
      const taken = body.take()
      expect(taken.some(byte => byte > 0)).toBe(true)
      taken.fill(0)
    } finally {
      globalThis.Uint8Array = platform
    }
    expect(new Set(seen).size).toBeGreaterThan(2)
    for (const bytes of seen) expect(bytes.every(byte => byte === 0)).toBe(true)
  })
})
