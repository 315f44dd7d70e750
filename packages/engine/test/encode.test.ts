import { expect, test } from '@jest/globals'
import { publishedReports as published } from '@sluice/test-support/report/published-reports.js'
import { fieldsOnWire, schemas } from '@sluice/test-support/report/report-schemas.js'
import { AbiCoder, recoverAddress as ethersRecover } from 'ethers'
import fc from 'fast-check'
import { decodeAbiParameters, encodeAbiParameters } from 'viem'
import {
  encodeBlob,
  encodeFullReport,
  type Field,
  type FieldValue,
  reportSchema,
} from '../encode.js'
import { reportDigest } from '../network.js'

const versions = schemas.map(({ version }) => version)
const resolutions = ['s', 'ms'] as const
const coder = AbiCoder.defaultAbiCoder()
const outer = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32']

/** The types of a version, as others bear witness to them. */
function typesOf(version: number, resolution: 's' | 'ms'): string[] {
  return fieldsOnWire(version, resolution).map(({ type }) => type)
}

function schemaOf(version: number, resolution: 's' | 'ms'): readonly Field[] {
  const schema = reportSchema(version, resolution)
  if (schema === undefined) throw new Error(`no schema for V${version}`)
  return schema
}

function anyValue({ type }: Field): fc.Arbitrary<FieldValue> {
  if (type === 'bytes32') {
    return fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map(bytes => `0x${Buffer.from(bytes).toString('hex')}`)
  }
  if (type === 'int192') return fc.bigInt(-(2n ** 191n), 2n ** 191n - 1n)
  return fc.bigInt(0n, 2n ** BigInt(type.slice(4)) - 1n)
}

for (const resolution of resolutions) {
  test.each(versions)(`V%i in ${resolution} encodes as viem and ethers encode it`, version => {
    const schema = schemaOf(version, resolution)
    expect(schema.map(field => field.type)).toEqual(typesOf(version, resolution))
    fc.assert(
      fc.property(fc.tuple(...schema.map(anyValue)), values => {
        const named = Object.fromEntries(
          schema.map((field, i) => [field.name, values[i] as FieldValue]),
        )
        const blob = `0x${encodeBlob(schema, named)}`
        expect(blob).toBe(coder.encode(typesOf(version, resolution), values))
        const parameters = typesOf(version, resolution).map(type => ({ type }))
        // viem takes small integers as numbers.
        const forViem = values.map((value, i) =>
          parameters[i]?.type === 'uint32' ? Number(value) : value,
        )
        expect(blob).toBe(encodeAbiParameters(parameters, forViem))
        expect(decodeAbiParameters(parameters, blob as `0x${string}`)).toEqual(forViem)
      }),
      { numRuns: 25 },
    )
  })
}

test('a published report comes out again when its decoded fields are encoded', () => {
  expect(published).toHaveLength(17)
  for (const { version, fullReport, decoded } of published) {
    const schema = schemaOf(Number(version.slice(1)), 's')
    const { feedID, ...rest } = decoded
    const values: Record<string, FieldValue> = { feedId: feedID as string }
    for (const [name, digits] of Object.entries(rest)) values[name] = BigInt(digits)
    const [context, blob, rs, ss, vs] = coder.decode(outer, fullReport).toArray(true)
    expect(`0x${encodeBlob(schema, values)}`).toBe(blob)
    const bare = (hex: string) => hex.slice(2)
    expect(
      encodeFullReport({
        context: context.map(bare),
        blob: bare(blob),
        rs: rs.map(bare),
        ss: ss.map(bare),
        vs: bare(vs),
      }),
    ).toBe(fullReport)
  }
})

test('the digest is the one that the signers of published reports have signed', () => {
  for (const { fullReport, signers } of published) {
    const [context, blob, rs, ss, vs] = coder.decode(outer, fullReport).toArray(true)
    const digest = reportDigest(
      blob.slice(2),
      context.map((word: string) => word.slice(2)),
    )
    const recovered = rs.map((r: string, i: number) => {
      const v = 27 + Number.parseInt(vs.slice(2 + 2 * i, 4 + 2 * i), 16)
      return ethersRecover(digest, { r, s: ss[i], v }).toLowerCase()
    })
    expect(recovered).toEqual(signers)
  }
})

test('a full report with a blob of any length decodes with ethers', () => {
  const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  const anyWord = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(hexOf)
  const anyBlob = fc.uint8Array({ maxLength: 100 }).map(hexOf)
  const anySignatures = fc.array(fc.tuple(anyWord, anyWord), { maxLength: 4 })
  fc.assert(
    fc.property(
      fc.tuple(anyWord, anyWord, anyWord),
      anyBlob,
      anySignatures,
      anyWord,
      (context, blob, pairs, vs) => {
        const rs = pairs.map(([r]) => r)
        const ss = pairs.map(([, s]) => s)
        const prefixed = (words: readonly string[]) => words.map(hex => `0x${hex}`)
        expect(encodeFullReport({ context, blob, rs, ss, vs })).toBe(
          coder.encode(outer, [
            prefixed(context),
            `0x${blob}`,
            prefixed(rs),
            prefixed(ss),
            `0x${vs}`,
          ]),
        )
      },
    ),
  )
})

test('a value that its field does not take is an error naming field and rule', () => {
  const schema = schemaOf(4, 's')
  const values: Record<string, FieldValue> = {
    feedId: `0x0004${'00'.repeat(30)}`,
    validFromTimestamp: 1,
    observationsTimestamp: 1,
    nativeFee: 0,
    linkFee: 0,
    expiresAt: 1,
    price: 1,
    marketStatus: 2,
  }
  const encode = (changed: Record<string, FieldValue>) => () =>
    encodeBlob(schema, { ...values, ...changed })
  expect(encode({})).not.toThrow()
  expect(encode({ marketStatus: 2n ** 32n })).toThrow(
    'marketStatus: uint32 takes 0 to 4294967295, got 4294967296',
  )
  expect(encode({ marketStatus: -1 })).toThrow('marketStatus: uint32 takes 0 to 4294967295, got -1')
  expect(encode({ price: 2n ** 191n })).toThrow(/^price: int192 takes -\d+ to \d+, got \d+$/)
  expect(encode({ price: -(2n ** 191n) })).not.toThrow()
  expect(encode({ price: 1.5 })).toThrow('price: int192 takes a bigint or a safe integer, got 1.5')
  expect(encode({ price: '1' })).toThrow(
    'price: int192 takes a bigint or a safe integer, got a string',
  )
  expect(encode({ feedId: '0x0004' })).toThrow(
    'feedId: bytes32 takes 0x and 64 lower-case hex digits',
  )
  expect(() => encodeBlob(schema, { feedId: values.feedId as string })).toThrow(
    'validFromTimestamp: no value',
  )
})
