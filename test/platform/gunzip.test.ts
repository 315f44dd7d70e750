import { gzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { gunzip } from '../../platform/node/gunzip.js'

async function* piecesOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** The text that could be read, and the code of the error that ended it. */
async function read(bytes: Uint8Array, size = 1000): Promise<[text: string, code: unknown]> {
  const parts: Uint8Array[] = []
  try {
    for await (const part of gunzip(piecesOf(bytes, size))) parts.push(part)
    return [Buffer.concat(parts).toString(), undefined]
  } catch (thrown) {
    return [Buffer.concat(parts).toString(), (thrown as { code?: unknown }).code]
  }
}

const text = Array.from({ length: 5000 }, (_, i) => `line ${i} ${Math.sin(i)}\n`).join('')
const zipped = gzipSync(text)

test.each([1, 1000, 1_000_000])(
  'members one after the other, in pieces of %i bytes',
  async size => {
    const short = gzipSync('short\n')
    expect(await read(Buffer.concat([short, short, short]), size)).toEqual([
      'short\n'.repeat(3),
      undefined,
    ])
  },
)

test('a text of many pieces', async () => {
  expect(await read(zipped)).toEqual([text, undefined])
})

test.each([
  ['ends in the middle', zipped.subarray(0, zipped.length - 100), 'Z_BUF_ERROR'],
  ['has other data behind it', Buffer.concat([zipped, Buffer.from('other data')]), 'Z_DATA_ERROR'],
])('a text that %s is read up to there', async (_, bytes, code) => {
  const [found, failure] = await read(bytes)
  expect(failure).toBe(code)
  expect(found.length).toBeGreaterThan(text.length * 0.9)
  expect(text.startsWith(found)).toBe(true)
})

test('a reader that stops early', async () => {
  for await (const part of gunzip(piecesOf(zipped, 1000))) {
    expect(part.byteLength).toBeGreaterThan(0)
    break
  }
})
