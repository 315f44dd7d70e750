import { describe, expect, test } from '@jest/globals'
import { anyCharacter } from '@sluice/test-support/characters.js'
import { inForm } from '@sluice/test-support/tier.js'
import fc from 'fast-check'
import { ValidationError } from 'sluice/core'
import { encodeBase64 } from 'sluice/internal'
import { formatDuration, parseDuration } from '../../request/duration.js'
import { parseBase64 } from '../../request/fields.js'
import type { ConfidentialHTTPRequestMessage } from '../../request/message.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { PEM } from '../support/certificate.js'

const name = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,9}$/)
const text = fc.string({ unit: anyCharacter })
const header = fc.stringMatching(/^X-[A-Za-z0-9-]{1,9}$/)
const bytes = fc.uint8Array({ maxLength: 40 })
const duration = fc
  .tuple(fc.bigInt({ min: 0n, max: 315_576_000_000n }), fc.nat(999_999_999))
  .filter(([seconds, nanos]) => seconds > 0n || nanos > 0)

const facts = fc.record({
  url: fc.webUrl(),
  method: fc.constantFrom('GET', 'POST', 'PATCH'),
  body: fc.oneof(fc.constant(undefined), text, bytes),
  headers: fc.dictionary(header, fc.array(text, { maxLength: 3 }), { maxKeys: 4 }),
  publicValues: fc.dictionary(name, text, { maxKeys: 4 }),
  certificate: fc.boolean(),
  timeout: fc.option(duration, { nil: undefined }),
  encryptOutput: fc.boolean(),
  secrets: fc.uniqueArray(
    fc.record({ key: name, namespace: name, owner: fc.option(name, { nil: undefined }) }),
    { maxLength: 10, selector: secret => secret.key },
  ),
})
type Facts = typeof facts extends fc.Arbitrary<infer Value> ? Value : never

const common = ({ url, method, publicValues, encryptOutput }: Facts): object => ({
  url,
  method,
  templatePublicValues: publicValues,
  encryptOutput,
})

function toMessage(each: Facts): unknown {
  const { body, timeout } = each
  return {
    vaultDonSecrets: each.secrets,
    request: {
      ...common(each),
      body:
        body === undefined
          ? { case: undefined }
          : { case: typeof body === 'string' ? 'bodyString' : 'bodyBytes', value: body },
      multiHeaders: mapValues(each.headers, values => ({ values })),
      customRootCaCertPem: each.certificate ? new TextEncoder().encode(PEM) : new Uint8Array(),
      timeout: timeout && { seconds: timeout[0], nanos: timeout[1] },
    },
  }
}

function toPlain(each: Facts): unknown {
  const { body, timeout } = each
  return {
    vaultDonSecrets: each.secrets,
    request: {
      ...common(each),
      [typeof body === 'string' ? 'bodyString' : 'bodyBytes']: body,
      multiHeaders: mapValues(each.headers, values => ({ values })),
      customRootCaCertPem: each.certificate ? PEM : undefined,
      timeout: timeout && { seconds: String(timeout[0]), nanos: timeout[1] },
    },
  }
}

function toJSON(each: Facts): unknown {
  const { body, timeout } = each
  const json = {
    vault_don_secrets: each.secrets,
    request: {
      ...common(each),
      ...(typeof body === 'string' ? { body_string: body } : {}),
      ...(typeof body === 'object' ? { body_bytes: Buffer.from(body).toString('base64') } : {}),
      multi_headers: mapValues(each.headers, values => (values.length === 0 ? {} : { values })),
      customRootCaCertPem: each.certificate ? Buffer.from(PEM).toString('base64') : undefined,
      timeout: timeout && formatDuration({ seconds: timeout[0], nanos: timeout[1] }),
    },
  }
  return JSON.parse(JSON.stringify(json))
}

function mapValues<Value>(
  map: Readonly<Record<string, string[]>>,
  change: (values: string[]) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(map).map(([key, values]) => [key, change(values)]))
}

/** A normal request, or ValidationError's place. */
function attempt(input: unknown): ConfidentialHTTPRequestMessage | undefined {
  try {
    return normalizeRequest(input)
  } catch (error) {
    expect(error).toBeInstanceOf(ValidationError)
    expect((error as Error).message.length).toBeLessThan(500)
    return undefined
  }
}

/** JSON whose keys are often the right ones. */
const keys = fc.constantFrom(
  ...['request', 'vaultDonSecrets', 'url', 'method', 'bodyString', 'bodyBytes', 'body', 'case'],
  ...['multiHeaders', 'values', 'templatePublicValues', 'customRootCaCertPem', 'timeout', 'key'],
  ...['seconds', 'nanos', 'encryptOutput', 'namespace', 'owner', '$typeName', '__proto__', 'X-A'],
)
const { junk } = fc.letrec(tie => ({
  junk: fc.oneof(
    { depthSize: 'medium' },
    fc.constantFrom('https://a.example', 'GET', '5s', 'AAAA', 'main', '', true, null, 7, 1.5),
    fc.string({ unit: anyCharacter }),
    fc.array(tie('junk'), { maxLength: 3 }),
    fc.array(fc.tuple(keys, tie('junk')), { maxLength: 6 }).map(own),
  ),
}))

/** As JSON.parse does it: `__proto__` is a property like others. */
function own(entries: [string, unknown][]): object {
  return Object.fromEntries(entries)
}

describe('any request', () => {
  test('in message, plain and JSON form is one', () => {
    fc.assert(
      fc.property(facts, each => {
        const message = normalizeRequest(toMessage(each))
        expect(normalizeRequest(toPlain(each))).toStrictEqual(message)
        expect(normalizeRequest(toJSON(each))).toStrictEqual(message)
        expect(normalizeRequest(message)).toStrictEqual(message)
        expect(structuredClone(message)).toEqual(message)
      }),
    )
  })

  test('that is junk is refused by ValidationError, or normal', () => {
    let normal = 0
    fc.assert(
      fc.property(fc.oneof(junk, fc.anything({ withBigInt: true, withMap: true })), input => {
        const request = attempt(input)
        if (request !== undefined) normal++
        expect(request && normalizeRequest(request)).toStrictEqual(request)
      }),
      { numRuns: inForm(200, 2000) },
    )
    expect(Object.keys(Object.prototype)).toEqual([])
    expect(normal).toBeLessThan(inForm(200, 2000))
  })

  test('with junk in one field is refused by ValidationError, or normal', () => {
    fc.assert(
      fc.property(facts, keys, junk, fc.boolean(), (each, key, value, isOuter) => {
        const input = toJSON(each) as { request: object }
        const changed = isOuter
          ? { ...input, ...own([[key, value]]) }
          : { ...input, request: { ...input.request, ...own([[key, value]]) } }
        const request = attempt(changed)
        expect(request && normalizeRequest(request)).toStrictEqual(request)
      }),
      { numRuns: inForm(200, 2000) },
    )
  })
})

describe('base64', () => {
  test('is what the platform makes and reads', () => {
    fc.assert(
      fc.property(bytes, each => {
        const platform = Buffer.from(each)
        expect(encodeBase64(each)).toBe(platform.toString('base64'))
        expect(parseBase64(platform.toString('base64'))).toStrictEqual(new Uint8Array(each))
        expect(parseBase64(platform.toString('base64url'))).toStrictEqual(new Uint8Array(each))
      }),
    )
  })

  test('has one padded text for the bytes it is read as', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Da-d09+/=]{0,8}$/), each => {
        const read = parseBase64(each)
        if (read === undefined) return
        expect(encodeBase64(read).replace(/=+$/, '')).toBe(each.replace(/=+$/, ''))
      }),
    )
  })
})

describe('a duration', () => {
  test('is read as it was written', () => {
    fc.assert(
      fc.property(duration, ([seconds, nanos]) => {
        const text = formatDuration({ seconds, nanos })
        expect(text).toMatch(/^\d+(\.(\d{3}){1,3})?s$/)
        expect(parseDuration('timeout', text)).toMatchObject({ seconds, nanos })
      }),
    )
  })
})
