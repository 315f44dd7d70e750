// Reports that the service signed and others published: signed-reports.json.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { AbiCoder, concat, keccak256, recoverAddress } from 'ethers'
import { encodeAbiParameters } from 'viem'
import type { V14 } from '../../../plugins/decoders/v14.js'
import { decodeReport } from '../../../plugins/decoders/versions.js'
import {
  encodeOuter,
  feedIDOf,
  type Hex,
  noSignatures,
} from '../../support/report/report-arbitrary.js'
import { fieldsOnWire } from '../../support/report/report-schemas.js'

type Decimals = Readonly<Record<string, string>>

interface Recorded {
  readonly networks: readonly {
    readonly configDigest: string
    readonly f: number
    readonly signers: readonly string[]
  }[]
  readonly reports: readonly {
    readonly version: string
    readonly feedID: string
    readonly says: Decimals
    readonly decoded: Decimals
    readonly fullReport: string
  }[]
  readonly shown: readonly { readonly version: string; readonly decoded: Decimals }[]
}

const { networks, reports, shown }: Recorded = JSON.parse(
  readFileSync(join(__dirname, '../../vectors/signed-reports.json'), 'utf8'),
)

/** The decoded values in decimal, without duplicates and other properties. */
function decimalsOf(decoded: object): Record<string, string> {
  const { version: _, feedID: __, ...fields } = decoded as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([name]) => !name.endsWith('Raw'))
      .map(([name, value]) => [name, String(fields[`${name}Raw`] ?? value)]),
  )
}

describe.each(reports.map(report => [report.version, report] as const))(
  'a %s report',
  (_, report) => {
    const decoded = decodeReport(report.fullReport, report.feedID)

    test('decodes to the fields that an independent decoder finds, and to no others', () => {
      expect(decoded).toMatchObject({ version: report.version, feedID: report.feedID })
      expect(decimalsOf(decoded)).toEqual(report.decoded)
    })

    test('contains the values that its source shows', () => {
      expect(decimalsOf(decoded)).toMatchObject(report.says)
    })

    test('bears the signatures of f + 1 signers of its network', () => {
      const [context, blob, rs, ss, vs] = AbiCoder.defaultAbiCoder().decode(
        ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32'],
        report.fullReport,
      )
      const digest = keccak256(concat([keccak256(blob), ...context]))
      const signers = rs.map((r: string, index: number) => {
        const v = 27 + Number.parseInt(vs.slice(2 + 2 * index, 4 + 2 * index), 16)
        return recoverAddress(digest, { r, s: ss[index], v }).toLowerCase()
      })
      const network = networks.find(({ configDigest }) => configDigest === context[0])
      expect(network?.signers).toEqual(expect.arrayContaining(signers))
      expect(new Set(signers).size).toBe((network?.f ?? 0) + 1)
    })
  },
)

test('these are of V2, V7, V8, V9 and V11', () => {
  expect(reports.map(({ version }) => version)).toEqual(['V2', 'V7', 'V8', 'V9', 'V11'])
})

describe.each(shown.map(report => [report.version, report] as const))(
  'a %s report of the service of which the values were shown',
  (label, report) => {
    const version = Number(label.slice(1))
    const feedID = feedIDOf(version, 's', 0xabcdefn)
    const fields = fieldsOnWire(version, 's')
    const values = Object.fromEntries(
      Object.entries(report.decoded).map(([name, digits]) => [name, BigInt(digits)]),
    )
    const inputs = fields
      .slice(1)
      .map(({ name, type }) => (type === 'uint32' ? Number(values[name]) : values[name]))
    const fullReport: Hex = encodeOuter(
      encodeAbiParameters(
        fields.map(({ type }) => ({ type })),
        [feedID, ...inputs],
      ),
      noSignatures,
    )

    test('has its values when it is encoded again and decoded', () => {
      expect(decimalsOf(decodeReport(fullReport, feedID))).toEqual(report.decoded)
    })

    test('has seconds that make dates', () => {
      const { expiryTime, firstDayOfNotice } = decodeReport(fullReport, feedID) as V14
      expect(new Date(expiryTime * 1000).toISOString()).toBe('2026-09-30T04:00:00.000Z')
      expect(firstDayOfNotice).toBe(expiryTime)
    })

    test('is served by the local engine', async () => {
      await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
      const published = engine.publish(feedID, values)
      expect(decimalsOf(decodeReport(published.fullReport, feedID))).toEqual(report.decoded)
    })
  },
)
