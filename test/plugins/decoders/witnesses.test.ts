// Our decoders and the local engine against the table of how others read the reports: report-schemas.json.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { decodeAbiParameters, encodeAbiParameters } from 'viem'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import {
  encodeOuter,
  feedIDOf,
  type Hex,
  noSignatures,
} from '../../support/report/report-arbitrary.js'
import {
  allSchemas,
  fieldsOnWire,
  readField,
  type SchemaField,
  schemas,
  type VersionSchema,
} from '../../support/report/report-schemas.js'

const resolutions = ['s', 'ms'] as const
type Resolution = (typeof resolutions)[number]

const cases = schemas.flatMap(({ version }) =>
  resolutions.map(resolution => [version, resolution] as const),
)

/** True where two readings of a field contradict each other; a witness without a unit contradicts none. */
function differ(one: SchemaField, other: SchemaField): boolean {
  return (
    one.name !== other.name ||
    one.type !== other.type ||
    (one.unit !== undefined && one.unit !== other.unit)
  )
}

function lineOf({ name, type, unit }: SchemaField): string {
  return `${type} ${name}${unit === undefined ? '' : ` [${unit}]`}`
}

/** The differences between the witnesses and our fields, a line each. */
function foundDisagreements({ fields, witnesses }: VersionSchema): string[] {
  return [...witnesses].flatMap(([witness, readings]) =>
    readings.flatMap((reading, index) => {
      const taken = fields[index] as SchemaField
      return differ(reading, taken) ? [`${witness}: ${lineOf(reading)}, not ${lineOf(taken)}`] : []
    }),
  )
}

describe.each(allSchemas.map(schema => [schema.version, schema] as const))('V%i', (_, schema) => {
  test('has at least two witnesses with our types', () => {
    const agreeing = [...schema.witnesses.values()].filter(
      readings =>
        readings.length >= schema.fields.length - 1 &&
        readings.every(({ type }, index) => type === schema.fields[index]?.type),
    )
    expect(agreeing.length).toBeGreaterThanOrEqual(2)
  })

  test('has a witness for each name, type and unit', () => {
    for (const [index, taken] of schema.fields.entries()) {
      const readings = [...schema.witnesses.values()].flatMap(fields => fields[index] ?? [])
      expect(readings).toContainEqual(expect.objectContaining({ type: taken.type }))
      expect(readings).toContainEqual(expect.objectContaining({ name: taken.name }))
      // Every version has the same head; not every witness repeats its unit.
      if (taken.unit !== undefined && index >= 6)
        expect(readings).toContainEqual(expect.objectContaining({ unit: taken.unit }))
    }
  })

  test('has a reason for every difference of a witness, and for nothing else', () => {
    const recorded = schema.disagreements.flatMap(({ witnesses, says, taken, why }) => {
      expect(why).not.toBe('')
      return witnesses.map(
        witness => `${witness}: ${lineOf(readField(says))}, not ${lineOf(readField(taken))}`,
      )
    })
    expect(foundDisagreements(schema).sort()).toEqual(recorded.sort())
  })
})

test('the decoders are of the versions that have the common head', () => {
  expect(allDecoders.map(({ version }) => version)).toEqual(schemas.map(({ version }) => version))
})

const START = 1_789_420_480n
const perSecond: Readonly<Record<string, bigint>> = { s: 1n, ms: 1000n, ns: 1_000_000_000n }

/** A realistic value; no two fields of a report have the same. */
function realistic({ type, unit }: SchemaField, index: number): bigint {
  const place = BigInt(index)
  if (unit === '1 to 12') return 11n
  if (unit !== undefined) return (START + place) * (perSecond[unit] as bigint) + place
  if (type === 'int192') return (100n + place) * 10n ** 18n + place
  return type === 'uint32' ? place : 10n ** 15n + place
}

/** The least or the greatest value of the type; times of the head are numbers, which end at 2^53 - 1. */
function extreme({ type, unit }: SchemaField, index: number, isLeast: boolean): bigint {
  if (type === 'int192') return isLeast ? -(2n ** 191n) : 2n ** 191n - 1n
  if (isLeast) return 0n
  if (index < 6 && unit === 'ms') return 2n ** 53n - 1n
  return 2n ** BigInt(type.slice('uint'.length)) - 1n
}

/** `abi.encode` of the table's types, by viem. */
function encode(fields: readonly SchemaField[], feedID: Hex, values: readonly bigint[]): Hex {
  const parameters = fields.map(({ name, type }) => ({ name, type }))
  const inputs = values.map((value, index) =>
    parameters[index + 1]?.type === 'uint32' ? Number(value) : value,
  )
  return encodeAbiParameters(parameters, [feedID, ...inputs])
}

function readings(
  version: number,
  resolution: Resolution,
  make: (field: SchemaField, index: number) => bigint,
): { fields: readonly SchemaField[]; feedID: Hex; values: bigint[]; blob: Hex } {
  const fields = fieldsOnWire(version, resolution)
  const feedID = feedIDOf(version, resolution, 0xabcdefn)
  const values = fields.slice(1).map((field, index) => make(field, index + 1))
  return { fields, feedID, values, blob: encode(fields, feedID, values) }
}

describe.each(cases)('the decoder of V%i, times in %s', (version, resolution) => {
  const expectFields = (make: (field: SchemaField, index: number) => bigint): void => {
    const { fields, feedID, values, blob } = readings(version, resolution, make)
    const data: Record<string, unknown> = {
      ...decodeReport(encodeOuter(blob, noSignatures), feedID),
    }
    const names = new Set(Object.keys(data))
    expect(data).toMatchObject({ version: `V${version}`, feedID })
    names.delete('version')
    names.delete('feedID')
    for (const [index, { name }] of fields.slice(1).entries()) {
      const value = values[index] as bigint
      const exact = data[`${name}Raw`]
      if (exact === undefined) expect([name, BigInt(data[name] as number)]).toEqual([name, value])
      else expect([name, data[name], exact]).toEqual([name, Number(value), value])
      names.delete(name)
      names.delete(`${name}Raw`)
    }
    expect([...names]).toEqual([])
  }

  test('has each value under its field’s name, and nothing more', () => expectFields(realistic))

  test('accepts the least and the greatest value of each type', () => {
    expectFields((field, index) => extreme(field, index, true))
    expectFields((field, index) => extreme(field, index, false))
  })

  test('rejects a value that is too wide for a type, and names the field', () => {
    const { fields, feedID, blob } = readings(version, resolution, realistic)
    for (const [index, field] of fields.entries()) {
      if (index === 0) continue
      const most = extreme(field, index, false)
      const word = (most + 1n).toString(16).padStart(64, '0')
      const at = 2 + 64 * index
      const wide: Hex = `0x${blob.slice(2, at)}${word}${blob.slice(at + 64)}`
      expect(() => decodeReport(encodeOuter(wide, noSignatures), feedID)).toThrow(field.name)
    }
  })
})

describe('the local engine', () => {
  let engine: DataEngine
  beforeAll(async () => {
    const feeds = cases.map(([version, resolution]) => feedIDOf(version, resolution, 0xabcdefn))
    engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
  })
  afterAll(() => engine.close())

  const blobOf = (fullReport: string): Hex =>
    decodeAbiParameters([{ type: 'bytes32[3]' }, { type: 'bytes' }], fullReport as Hex)[1]

  test.each(cases)('encodes V%i, times in %s, as viem does from the table', (version, unit) => {
    const { fields, feedID, values, blob } = readings(version, unit, realistic)
    const named = Object.fromEntries(
      values.map((value, index) => [(fields[index + 1] as SchemaField).name, value]),
    )
    expect(blobOf(engine.publish(feedID, named).fullReport)).toBe(blob)
  })

  test.each(cases)(
    'makes times of V%i, feeds in %s, in the units of the table',
    (version, unit) => {
      const fields = fieldsOnWire(version, unit)
      const feedID = feedIDOf(version, unit, 0xabcdefn)
      const blob = blobOf(engine.publish(feedID).fullReport)
      const made = decodeAbiParameters(
        fields.map(({ type }) => ({ type })),
        blob,
      )
      const now = Date.now() / 1000
      const year = 365 * 86_400
      for (const [index, { name, unit: said }] of fields.entries()) {
        if (said === undefined || name === 'duration') continue
        const value = made[index] as number | bigint
        if (said === '1 to 12') {
          expect(Number(value)).toBeGreaterThanOrEqual(1)
          expect(Number(value)).toBeLessThanOrEqual(12)
        } else if (name !== 'activationDateTime' || Number(value) !== 0) {
          const seconds = Number(BigInt(value) / (perSecond[said] as bigint))
          expect([name, Math.abs(seconds - now) < year]).toEqual([name, true])
        }
      }
    },
  )
})
