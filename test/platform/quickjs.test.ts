// Runs the built entries in QuickJS, the engine of CRE's workflows, and compares what they say with what they say on Node.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createProof } from 'sluice/proof'
import { sampleReport, sampleSigners } from 'sluice/testing'
import { readVectors } from '../support/files.js'
import { bundleProgram, startQuickJS, type World, writeCall } from '../support/quickjs.mjs'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeReport,
  fieldsOf,
  reports,
  resolutions,
  THIRD_PARTY,
  versions,
} from '../support/report/report-arbitrary.js'
import { clientOf, createHistory } from '../support/report/signed-history.js'
import {
  addresses,
  flip,
  makeReport,
  published,
  publishedSigners,
  signers,
} from '../support/report/signed-reports.js'
import { inForm } from '../support/tier.js'
import { type Call, run } from './quickjs-program.js'

let code: string
let world: World

/** Runs a call in QuickJS and on Node, which must say the same. */
async function agree(...call: Call): Promise<object> {
  const answer = world.run(call)
  expect([call, answer]).toEqual([call, JSON.parse(await run(writeCall(call)))])
  return answer as object
}

beforeAll(async () => {
  code = await bundleProgram()
  world = await startQuickJS(code)
})
afterAll(() => world.end())

test('is the language, and nothing else', () => {
  const missing =
    'URL Headers AbortController TextEncoder TextDecoder WebAssembly crypto performance console process Buffer setTimeout queueMicrotask structuredClone atob fetch'
  expect(world.evaluate(`'${missing}'.split(' ').filter(name => name in globalThis).join()`)).toBe(
    '',
  )
})

test('is the same bundle for a platform that the bundler does not know', async () => {
  expect(await bundleProgram('neutral')).toBe(code)
})

test('may have an encoder that cannot write into given bytes, as in CRE', async () => {
  const encoder = `globalThis.TextEncoder = class {
    encodeInto() { throw new Error('encodeInto is not supported') }
  }`
  const { fullReport, feedID } = published(0)
  const call = ['decodeReport', fullReport, feedID] as const
  const other = await startQuickJS(code, encoder)
  expect(other.run(call)).toEqual(world.run(call))
  other.end()
})

describe('decodeReport', () => {
  const vectors = readVectors<{ reports: typeof publishedReports }>('signed-reports.json').reports
  const all = [...publishedReports, ...vectors]

  test.each(all.map((each, index) => [index, each.version, each] as const))(
    'of report %i, of %s',
    async (_index, version, { fullReport, feedID }) => {
      const answer = await agree('decodeReport', fullReport, feedID)
      expect(answer).toMatchObject({ result: { version } })
    },
  )

  test.each([...versions, THIRD_PARTY])('of random reports of version %i', async version => {
    for (const resolution of resolutions) {
      const given = fc.sample(reports(version, resolution), inForm(5, 500))
      for (const { feedID, values, envelope } of given) {
        const fullReport = encodeReport(fieldsOf(version, resolution), values, envelope)
        const name = version === THIRD_PARTY ? 'decodeText' : 'decodeReport'
        expect(await agree(name, fullReport, feedID)).toMatchObject({
          result: { version: `V${version}` },
        })
      }
    }
  })

  test('of prices of 72 to 80 bits, and of negative ones', async () => {
    for (let bits = 70n; bits < 82n; bits++) {
      const values = [1n << bits, -(1n << bits), -1n - (1n << bits)]
      const given = sampleReport({ feedID: feedIDOfVersion(3), observationsTimestamp: 1, values })
      const { feedID, fullReport } = given
      expect(await agree('decodeReport', fullReport, feedID)).toMatchObject({
        result: { price: { bigint: String(values[0]) }, bid: { bigint: String(values[1]) } },
      })
    }
  })

  test('of what is no report', async () => {
    const { fullReport, feedID } = published(0)
    const wrong = [
      ...['', 'x', '0x', '1x00', fullReport.slice(0, -1), fullReport.slice(0, -64), null, 7],
      ...['g', 'é', '€', '\ud800', '\0'].map(digit => put(fullReport, 900, digit)),
      ...['𝄞', '\udbff\udfff'].map(digits => put(fullReport, 900, digits)),
      ...[3, 4, 5, 7].map(word => put(fullReport, 1 + 64 * (word + 1), 'f')),
      `${fullReport}é`,
      `0x${'0'.repeat(200_000)}`,
    ]
    for (const each of wrong)
      expect(await agree('decodeReport', each, feedID)).toMatchObject({ code: 'DECODING' })
    for (const id of [feedIDOfVersion(1), feedIDOfVersion(3), feedIDOfVersion(99), 'x', undefined])
      expect(await agree('decodeReport', fullReport, id)).not.toHaveProperty('result')
  })

  test('of text that is no UTF-8', async () => {
    const feedID = feedIDOfVersion(THIRD_PARTY)
    const values = [feedID, 1, 2, 3n, 4n, 5, 6n, 'HHHH', 7n, 'H', 1, 1n]
    const whole = encodeReport(fieldsOf(THIRD_PARTY, 's'), values)
    const bytes = 'c0800000 eda08000 f4908080 fffefdfc e282ac20 20e282ac 80202020 c3a9c3a9 efbbbf20'
    const answers = []
    for (const each of bytes.split(' '))
      answers.push(await agree('decodeText', whole.replace('48484848', each), feedID))
    const texts = ['€ ', ' €', 'éé', '\ufeff ']
    expect(answers.flatMap(each => ('result' in each ? [each.result] : []))).toMatchObject(
      texts.map(symbol => ({ symbol })),
    )
    expect(answers.filter(each => 'code' in each && each.code === 'DECODING')).toHaveLength(5)
  })
})

test('formatPrice', async () => {
  const prices = [0n, -1n, 3851421200000000000000n, -(2n ** 79n), 2n ** 191n - 1n, -(2n ** 191n)]
  const options = [
    {},
    { digits: 2 },
    ...['halfEven', 'trunc', 'expand', 'floor', 'ceil'].map(rounding => ({ digits: 2, rounding })),
  ]
  for (const price of prices)
    for (const decimals of [0, 8, 18])
      for (const each of options)
        expect(await agree('formatPrice', price, decimals, each)).toHaveProperty('result')
  const wrong = [
    [1, 18],
    [1n, -1],
    [1n, 256],
    [1n, 18, { digits: 300 }],
    [1n, 18, { rounding: 'up' }],
    [1n, 18, { digit: 2 }],
  ]
  for (const each of wrong)
    expect(await agree('formatPrice', ...each)).toMatchObject({ name: 'ValidationError' })
})

describe('verifyReport', () => {
  const made = makeReport()

  test('of published reports', async () => {
    const known = publishedReports.filter(each =>
      each.signers.every(signer => publishedSigners.signers.includes(signer)),
    )
    for (const { fullReport, feedID, signers } of known.slice(0, inForm(3, 100)))
      expect(await agree('verifyReport', fullReport, { signers: publishedSigners })).toMatchObject({
        result: { feedID, signers },
      })
  })

  test('of reports with two to six signatures', async () => {
    for (let count = 2; count <= 6; count++) {
      const by = Array.from({ length: count }, (_, index) => index)
      const { fullReport } = makeReport({ by })
      const set = { signers: addresses, f: Math.min(count - 1, 3) }
      expect(await agree('verifyReport', fullReport, { signers: set })).toMatchObject({
        result: { signers: addresses.slice(0, count) },
      })
      expect(await agree('verifyByLookup', fullReport, set)).toHaveProperty('result')
    }
  })

  test('of reports that are signed wrongly', async () => {
    const bits = (made.fullReport.length - 2) * 4
    // Of the context, the blob, each r and s, and the recovery ids.
    const places = [0.5, 3, 3.5, 12.5, 16.5, 18.5, 19.5, 20.5, 22.5, 23.5, 24.5].map(
      word => word * 256,
    )
    const wrong = [
      ...[...places, 6 * 256 + 7, 6 * 256 + 6, bits - 1].map(bit => flip(made.fullReport, bit)),
      makeReport({ by: [0, 1] }).fullReport,
      makeReport({ by: [0, 1, 2, 3, 4, 5, 6, 7] }).fullReport,
      makeReport({ by: [0, 1, 1] }).fullReport,
      makeReport({ by: [0, 1, 9] }).fullReport,
      ...['', '0x', null, 7, put(made.fullReport, 700, 'é'), made.fullReport.slice(0, -2)],
    ]
    const reasons = new Set<unknown>()
    for (const each of wrong) {
      const answer = await agree('verifyReport', each, { signers })
      expect(answer).toMatchObject({ name: 'ReportVerificationError', code: 'VERIFICATION' })
      if ('reason' in answer) reasons.add(answer.reason)
    }
    expect([...reasons].sort()).toEqual([
      'bad-recovery-id',
      'bad-signature',
      'malformed',
      'repeated-signer',
      'too-few-signatures',
      'too-many-signatures',
      'unknown-signer',
    ])
  })

  test('with other signers, and with wrong options', async () => {
    const others = { signers: addresses.slice(4, 11), f: 2 }
    const ofDigest = { ...signers, configDigest: `0x0009${'cd'.repeat(30)}` }
    for (const each of [others, ofDigest, { ...signers, activeUntil: 1 }])
      expect(await agree('verifyReport', made.fullReport, { signers: each })).toMatchObject({
        code: 'VERIFICATION',
      })
    const options = [
      ...[undefined, {}, { signers: [] }, { signers: { signers: ['0x'], f: 0 } }],
      ...[
        { signers: { ...signers, f: 7 } },
        { signers, curveLibrary: 'none' },
        { signers, more: 1 },
      ],
    ]
    for (const each of options)
      expect(await agree('verifyReport', made.fullReport, each)).toMatchObject({
        name: 'ValidationError',
      })
    const wanted = { feedID: feedIDOfVersion(3), validFromTimestamp: 1, observationsTimestamp: 1 }
    for (const [name, value] of Object.entries(wanted))
      expect(
        await agree('verifyReport', made.fullReport, { signers, [name]: value }),
      ).toMatchObject({
        code: 'VERIFICATION',
      })
    expect(await agree('verifyByLookup', made.fullReport, [])).toMatchObject({
      reason: 'unknown-digest',
    })
  })

  test('with a library of machine code or WebAssembly says that there is none', () => {
    for (const curveLibrary of ['secp256k1', 'wasm'])
      expect(world.run(['verifyReport', made.fullReport, { signers, curveLibrary }])).toMatchObject(
        {
          name: 'ReportVerificationError',
          reason: 'curve-library-unavailable',
        },
      )
  })
})

describe('checkProof', () => {
  const history = createHistory(feedIDOfVersion(3), 60, 3)
  const { feedID, start, end, second } = history
  const client = clientOf(history, (end * 1000) / second + 60_000)
  const options = { signers: sampleSigners }
  afterAll(() => client.close())
  const ends = { open: 'from', straddling: 'clip' } as const

  test('of a price, an average and a missing report', async () => {
    const hole = history.windows.findIndex(({ report }) => report === undefined)
    const at = history.windows[hole]?.from ?? 0
    for (const claim of [
      { at: start },
      { at },
      { from: start, to: history.windows[24]?.to ?? 0, ends },
    ]) {
      const proof = await createProof(client, { feedID, ...claim })
      expect(await agree('checkProof', proof, options)).toHaveProperty('result')
    }
  })

  test('of proofs in which something is wrong', async () => {
    const proof = await createProof(client, { feedID, from: start, to: start + 3 * second, ends })
    const text = JSON.stringify(proof)
    const [first = '', ...others] = proof.reports
    const late = sampleReport({
      feedID,
      observationsTimestamp: start + 1,
      values: [1n, 1n, 1n],
      signed: true,
    })
    const wrong: readonly (readonly [reason: string, proof: unknown, more?: object])[] = [
      ['signature', { ...proof, reports: [flip(first, 12 * 256 + 250), ...others] }],
      ['signature', proof, { signers: { signers: addresses.slice(0, 4), f: 1 } }],
      ['order', { ...proof, reports: [...proof.reports].reverse() }],
      ['tiling', { ...proof, reports: others }],
      ['value', { ...proof, claim: { ...proof.claim, value: '1' } }],
      ['refuted', proof, { against: [late.fullReport] }],
      ['wrong-feed', proof, { feedID: feedIDOfVersion(4) }],
      ['malformed', { ...proof, claim: { ...proof.claim, field: 'none' } }],
      ['malformed', { ...proof, more: 1 }],
      ['malformed', text.replace('{', '{"version":1,')],
      ['malformed', null],
    ]
    for (const [reason, given, more] of wrong)
      expect(await agree('checkProof', given, { ...options, ...more })).toMatchObject({
        name: 'ProofError',
        reason,
      })
    expect(await agree('checkProof', text, options)).toHaveProperty('result')
    expect(await agree('checkProof', proof, {})).toMatchObject({ name: 'ValidationError' })
  })
})

/** A feed of a version. */
function feedIDOfVersion(version: number): string {
  return `0x${version.toString(16).padStart(4, '0')}${'4b'.repeat(30)}`
}

/** A text with others of its characters at an index. */
function put(text: string, at: number, characters: string): string {
  return text.slice(0, at) + characters + text.slice(at + characters.length)
}
