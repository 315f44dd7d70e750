import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { createClient } from '../../core/client.js'
import type { WebCrypto } from '../../core/crypto.js'
import { endpoints, generateAuthHeaders, hmacAuth, ValidationError } from '../../index.js'

interface Vector {
  readonly method: string
  readonly path: string
  readonly body: string
  readonly apiKey: string
  readonly userSecret: string
  readonly timestamp: number
  readonly signature: string
}
const { vectors } = JSON.parse(readFileSync(join(__dirname, '../vectors/hmac.json'), 'utf8')) as {
  vectors: Vector[]
}

describe('generateAuthHeaders', () => {
  test.each(vectors)('signs $method $path as published', async vector => {
    const { method, path, body, apiKey, userSecret, timestamp, signature } = vector
    const url = `https://api.example${path}`
    const expected = {
      Authorization: apiKey,
      'X-Authorization-Timestamp': String(timestamp),
      'X-Authorization-Signature-SHA256': signature,
    }
    expect(await generateAuthHeaders(apiKey, userSecret, method, url, body, timestamp)).toEqual(
      expected,
    )
    // The platform's own WebCrypto takes the place of the default one.
    expect(
      await generateAuthHeaders(
        apiKey,
        userSecret,
        method.toLowerCase(),
        url,
        body,
        timestamp,
        globalThis.crypto,
      ),
    ).toEqual(expected)
  })

  test('signs what the official client signs', async () => {
    const official = load('@chainlink/data-streams-sdk') as {
      generateAuthHeaders: typeof generateAuthHeaders
    }
    const request = [
      'key',
      'secret',
      'GET',
      'https://x.example/api/v1/ws?feedIDs=0xab,0xcd',
      undefined,
      1_753_900_000_123,
    ] as const
    expect(await generateAuthHeaders(...request)).toEqual(
      await official.generateAuthHeaders(...request),
    )
  })
})

describe('hmacAuth', () => {
  test.each([
    ['apiKey', undefined],
    ['apiKey', ''],
    ['apiKey', 7],
    ['apiKey', 'two words'],
    ['apiKey', 'line\r\nX-Injected: 1'],
    ['userSecret', undefined],
    ['userSecret', '  '],
  ])('refuses %s %p by name, without quoting it', (field, value) => {
    const options = { apiKey: 'key', userSecret: 'secret', [field]: value }
    expect(() => hmacAuth(options as never)).toThrow(ValidationError)
    expect(() => hmacAuth(options as never)).toThrow(new RegExp(field))
    expect(() => hmacAuth(options as never)).not.toThrow(/Injected|words/)
  })

  test('shows neither key nor secret to whoever inspects it', async () => {
    const { inspect } = await import('node:util')
    const shown = inspect(hmacAuth({ apiKey: 'the-key', userSecret: 'the-secret' }), {
      depth: 9,
      showHidden: true,
    })
    expect(shown).not.toMatch(/the-key|the-secret/)
  })
})

test('a key that could not be made is made for the next attempt, and then once', async () => {
  const { subtle } = globalThis.crypto
  let made = 0
  const crypto = {
    ...{ getRandomValues: (bytes: never) => bytes },
    subtle: {
      importKey(...rest: Parameters<typeof subtle.importKey>) {
        if (++made === 1) return Promise.reject(new Error('the module is busy'))
        return subtle.importKey(...rest)
      },
      digest: subtle.digest.bind(subtle),
      sign: subtle.sign.bind(subtle),
    },
  } as unknown as WebCrypto
  const client = createClient({
    ...endpoints.mainnet,
    plugins: [hmacAuth({ apiKey: 'key', userSecret: 'secret', crypto })],
    fetch: async () => Response.json({ feeds: [] }),
  })
  await expect(client.listFeeds()).rejects.toThrow(/the module is busy/)
  for (let count = 0; count < 3; count++) expect(await client.listFeeds()).toEqual([])
  expect(made).toBe(2)
  await client.close()
})

function load(name: string): unknown {
  return require(name)
}
