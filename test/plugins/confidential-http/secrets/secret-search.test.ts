import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { SecretSearch } from '../../../../plugins/confidential-http/secrets/redact.js'
import { anyCharacter } from '../../../support/characters.js'
import { processorTime } from '../../../support/processor-time.js'
import { inForm } from '../../../support/tier.js'

const isIn = (text: string, ...secrets: string[]): boolean => new SecretSearch(secrets).isIn(text)

const bytesOf = (text: string): Buffer => Buffer.from(text, 'utf8')
const escapeAll = (text: string): string =>
  [...bytesOf(text)].map(byte => `%${byte.toString(16).padStart(2, '0')}`).join('')
const unicode = (text: string): string =>
  Array.from(
    { length: text.length },
    (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('')
const entities = (text: string): string =>
  [...text].map(char => `&#${char.codePointAt(0)};`).join('')

/** The spellings in which a server may repeat a secret. */
const spellings: Readonly<Record<string, (text: string) => string>> = {
  plain: text => text,
  JSON: text => JSON.stringify({ text }),
  'JSON, all of it escaped': unicode,
  'JSON in JSON': text => JSON.stringify(JSON.stringify(text)),
  'a URL': encodeURIComponent,
  'a URL, all of it escaped': escapeAll,
  'a URL, in capitals': text => escapeAll(text).toUpperCase(),
  'a URL in a URL': text => encodeURIComponent(escapeAll(text)),
  'a form': text => String(new URLSearchParams({ text })),
  HTML: text => text.replace(/[&<>"']/g, char => `&#x${char.charCodeAt(0).toString(16)};`),
  'HTML, all of it escaped': entities,
  'hexadecimal digits': text => bytesOf(text).toString('hex'),
  'hexadecimal digits in capitals': text => bytesOf(text).toString('hex').toUpperCase(),
  'hexadecimal digits with colons': text =>
    (bytesOf(text).toString('hex').match(/../g) ?? []).join(':'),
  base64: text => bytesOf(text).toString('base64'),
  'base64 without padding': text => bytesOf(text).toString('base64').replace(/=+$/, ''),
  base64url: text => bytesOf(text).toString('base64url'),
  'base64 in lines': text =>
    (
      bytesOf(text)
        .toString('base64')
        .match(/.{1,10}/g) ?? []
    ).join('\r\n'),
  'base64 in a URL': text => encodeURIComponent(bytesOf(text).toString('base64')),
  'base64 in JSON': text => JSON.stringify(bytesOf(text).toString('base64')).replaceAll('/', '\\/'),
  'base64 of JSON': text => bytesOf(JSON.stringify({ k: text })).toString('base64'),
}

const secret = fc
  .oneof(
    fc.string({ minLength: 12, maxLength: 80 }),
    fc.string({ unit: anyCharacter, minLength: 12, maxLength: 40 }),
    fc.base64String({ minLength: 12, maxLength: 80 }),
  )
  .filter(text => text.length >= 12)
const around = fc.string({ maxLength: 9 })
const numRuns = Number(process.env.REDACTION_RUNS ?? inForm(10, 50))

describe('a secret is found', () => {
  test.each(Object.entries(spellings))('as %s, whatever is around it', (_name, spell) => {
    fc.assert(
      fc.property(secret, around, around, (text, before, after) => {
        expect(isIn(`${before} ${spell(text)} ${after}`, 'another-secret', text)).toBe(true)
      }),
      { numRuns },
    )
  })

  test.each([0, 1, 2, 3, 4, 5])('in base64 after %i other bytes, as Basic has it', offset => {
    fc.assert(
      fc.property(secret, around, (text, after) => {
        const all = `${'u'.repeat(offset)}${text}${after}`
        for (const encoding of ['base64', 'base64url', 'hex'] as const)
          expect(isIn(`Basic ${bytesOf(all).toString(encoding)}`, text)).toBe(true)
      }),
      { numRuns },
    )
  })

  test.each(['s3cret\n', ' s3cret', '\ts3cret\r\n'])(
    'without the space around it, which a header loses: %j',
    text => {
      expect(isIn('key=s3cret;', text)).toBe(true)
      expect(isIn(`Basic ${btoa('user:s3cret')}`, text)).toBe(true)
    },
  )

  test.each(['sk-live-x9q7', 'SK-LIVE-x9q7', 'sK-lIvE-x9q7'])('in another case, as %s', text => {
    expect(isIn(`x-${text.toLowerCase()}`, text)).toBe(true)
    expect(isIn(text.toUpperCase(), text)).toBe(true)
  })

  test('of bytes that were taken for characters one by one', () => {
    const value = Buffer.concat([Buffer.of(0xff), bytesOf('ключключ🔑')]).toString('latin1')
    expect(isIn(value, 'ключключ🔑')).toBe(true)
    expect(isIn(bytesOf('ключ🔑'.repeat(3)).toString('latin1'), 'ключ🔑'.repeat(3))).toBe(true)
  })

  test('in a text that is too long to be searched, as it may contain one', () => {
    expect(isIn('x'.repeat(1_048_577), 'a secret')).toBe(true)
    expect(isIn('é'.repeat(600_000), 'a secret')).toBe(true)
    expect(isIn('x'.repeat(1_048_577))).toBe(false)
  })
})

describe('no secret is found', () => {
  // Who may have guesses repeated would otherwise find a secret piece by piece.
  test('in a text with a part of it, however long and however it is spelt', () => {
    const text = fc.string({
      unit: fc.constantFrom(...'0123456789abcdef'),
      minLength: 8,
      maxLength: 64,
    })
    fc.assert(
      fc.property(text, each => {
        const search = new SecretSearch([`<${each}>`])
        for (const part of [`<${each}`, `${each}>`, each])
          for (const encoding of ['utf8', 'hex', 'base64', 'base64url'] as const)
            expect(search.isIn(bytesOf(part).toString(encoding))).toBe(false)
      }),
      { numRuns },
    )
    for (const pin of ['4815', '48151623']) {
      expect(isIn(`x${pin.slice(0, -1)} ${pin.slice(1)}x`, pin)).toBe(false)
      expect(isIn(`x${pin}x`, pin)).toBe(true)
    }
  })

  test('in unrelated texts', () => {
    const texts = [
      'HTTP/1.1 200 OK, content-type: application/json; charset=utf-8',
      'the external server closed the connection before its answer was complete (ECONNRESET)',
      'Set-Cookie: session=8f14e45fceea167a5a36dedd4bea2543; Path=/; HttpOnly',
      'W/"33a64df551425fcc55e4d42a148795d9f25f89d4", Sun, 22 Nov 2026 06:02:18 GMT',
    ]
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 8, maxLength: 64 }),
        text => {
          for (const each of texts) expect(isIn(each, `sk-${text}`)).toBe(false)
        },
      ),
      { numRuns },
    )
  })
})

describe('a secret of one to three characters', () => {
  test.each(['a', '7', 'ab', '!?', 'abc', 'é'])('(%s) is found where it stands alone', text => {
    for (const found of [
      text,
      `bad key ${text}, sorry`,
      `key="${text}"`,
      JSON.stringify({ k: text }),
      `?k=${escapeAll(text)}&l`,
    ])
      expect(isIn(found, text)).toBe(true)
  })

  test.each(['a', '7', 'ab', 'abc'])('(%s) is found alone in base64 and hexadecimal', text => {
    for (const encoding of ['base64', 'base64url', 'hex'] as const)
      for (const before of ['', 'user:', 'me:'])
        expect(isIn(`Basic ${bytesOf(before + text).toString(encoding)}`, text)).toBe(true)
  })

  test.each(['a', 'e', '4', 'an', 'abc'])('(%s) hides no text that has it within words', text => {
    for (const harmless of ['the server can not be asked', 'port 443', 'abcdef', 'ETag: "24abc4e"'])
      expect(isIn(harmless, text)).toBe(false)
  })
})

test('no secret, or an empty one, is in any text', () => {
  for (const text of ['', 'text', ' '.repeat(100)]) {
    expect(isIn(text)).toBe(false)
    expect(isIn(text, '')).toBe(false)
  }
})

test('a long text is searched for a hundred secrets in linear time, even a hostile one', async () => {
  const secrets = Array.from({ length: 100 }, (_, at) => `${at}-${'ab'.repeat(4 + at)}`)
  const search = new SecretSearch([...secrets, 'a', '0123456789'.repeat(100)])
  for (const unit of ['-ababa', '%62', 'YWJh', 'abc0123', '\\u0062', '+', 'b'.repeat(1000)]) {
    const timeOf = (bytes: number): Promise<number> => {
      const text = unit.repeat(bytes / unit.length)
      return processorTime(() => search.isIn(text), 2)
    }
    const [short, long] = [await timeOf(10_000), await timeOf(100_000)]
    // Quadratic, it would be a hundred times as much, and seconds.
    expect(long).toBeLessThan(40 * short + 500)
  }
})
