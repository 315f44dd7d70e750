import { describe, expect, test } from '@jest/globals'
import { createCiphertextReader, encrypt, generateKeys } from '../../../crypto/tdh2/index.js'

const { publicKey } = generateKeys({ threshold: 1, nodes: 1 })
const text = (value: string): Promise<string> => encrypt(publicKey, new TextEncoder().encode(value))

describe('a ciphertext reader', () => {
  test('reads a ciphertext once, and knows it again by its text', async () => {
    const read = createCiphertextReader(publicKey)
    const [one, other] = await Promise.all([text('one'), text('other')])
    const first = read(one)
    expect(read(other)).not.toBe(first)
    expect(read(one)).toBe(first)
  })

  test('remembers nothing that is rejected', async () => {
    const read = createCiphertextReader(publicKey)
    const bad = (await text('one')).replace('"TDH2Ctxt":"ey', '"TDH2Ctxt":"eX')
    for (const _attempt of [1, 2]) expect(() => read(bad)).toThrow(/is rejected/)
  })

  test('forgets the one that was read longest ago', async () => {
    const read = createCiphertextReader(publicKey)
    const texts: string[] = []
    for (let count = 0; count < 101; count++) texts.push(await text(String(count)))
    const [first, second] = texts as [string, string]
    const [readFirst, readSecond] = [read(first), read(second)]
    read(first)
    for (const each of texts.slice(2)) read(each)
    expect(read(first)).toBe(readFirst)
    expect(read(second)).not.toBe(readSecond)
  })
})
