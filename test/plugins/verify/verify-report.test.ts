import { describe, expect, test } from '@jest/globals'
import {
  concat as ethersConcat,
  keccak256 as ethersKeccak,
  recoverAddress as ethersRecover,
} from 'ethers'
import { concat, type Hex, keccak256, recoverAddress } from 'viem'
import { isStreamsError } from '../../../core/errors.js'
import { type SignerSet, type Verification, verifyReport } from '../../../index.js'
import type { VerifyReportOptions } from '../../../plugins/verify/verify-report.js'
import { readContext } from '../../../report/full-report.js'
import type { VerificationFailure } from '../../../report/verifier.js'
import { publishedReports } from '../../support/report/published-reports.js'
import { randomFrom } from '../../support/report/report-arbitrary.js'
import {
  addresses,
  DIGEST,
  flip,
  isNativeHere,
  type Made,
  type Making,
  makeReport,
  ORDER,
  OTHER_DIGEST,
  published,
  publishedSigners,
  signers,
  TIME,
  word,
} from '../../support/report/signed-reports.js'
import { inForm } from '../../support/tier.js'

const libraries = isNativeHere
  ? (['noble', 'wasm', 'secp256k1'] as const)
  : (['noble', 'wasm'] as const)

async function reasonOf(verifying: Promise<Verification>): Promise<VerificationFailure> {
  const thrown = await verifying.then(
    () => new Error('verified'),
    (error: unknown) => error,
  )
  if (isStreamsError(thrown, 'VERIFICATION')) return thrown.reason
  throw thrown
}

const verify = ({ fullReport }: Made, options: Partial<VerifyReportOptions> = {}) =>
  verifyReport(fullReport, { signers, ...options })

describe.each(libraries)('with %s', curveLibrary => {
  test.each(publishedReports)('the published report of $configDigest is verified', async report => {
    const { fullReport, feedID, configDigest, decoded } = report
    const verification = await verifyReport(fullReport, {
      signers: publishedSigners,
      curveLibrary,
      quorum: 'exactly',
      feedID,
      validFromTimestamp: Number(decoded.validFromTimestamp),
      observationsTimestamp: Number(decoded.observationsTimestamp),
    })
    expect(verification).toEqual({
      feedID,
      configDigest,
      sequenceNumber: readContext(fullReport, feedID).sequenceNumber,
      validFromTimestamp: Number(decoded.validFromTimestamp),
      observationsTimestamp: Number(decoded.observationsTimestamp),
      f: 1,
      signers: report.signers,
    })
  })

  test('a report in capitals is the same report', async () => {
    const { fullReport, feedID, signers: by, configDigest } = published(8)
    const capitals = `0x${fullReport.slice(2).toUpperCase()}`
    const verification = await verifyReport(capitals, {
      signers: {
        ...publishedSigners,
        configDigest: configDigest.toUpperCase().replace('0X', '0x'),
      },
      curveLibrary,
    })
    expect(verification).toMatchObject({ feedID, configDigest, signers: by })
  })
})

describe('a single flipped bit', () => {
  const { fullReport, feedID } = published(8)
  const bits = 4 * (fullReport.length - 2)
  const refuse = (bit: number, curveLibrary: 'noble' | 'secp256k1') =>
    reasonOf(verifyReport(flip(fullReport, bit), { signers: publishedSigners, curveLibrary }))

  test('is noticed in many places (noble)', async () => {
    const random = randomFrom(7)
    for (let round = 0; round < inForm(20, 100); round++) await refuse(random() % bits, 'noble')
    expect(await refuse(bits - 1, 'noble')).toMatch(/-/)
    expect(feedID).toBe(published(8).feedID)
  })
})

describe('witnesses', () => {
  test.each(publishedReports)(
    'ethers and viem recover the same from $configDigest',
    async report => {
      const { fullReport, feedID } = report
      const words = (from: number, count: number): Hex =>
        `0x${fullReport.slice(2 + 64 * from, 2 + 64 * (from + count))}`
      const blobWords = Number(words(7, 1)) / 32
      const blob = words(8, blobWords)
      const context = words(0, 3)
      const hash = keccak256(concat([keccak256(blob), context]))
      expect(ethersKeccak(ethersConcat([ethersKeccak(blob), context]))).toBe(hash)
      const { signatures } = readContext(fullReport, feedID)
      const { signers: ours } = await verifyReport(fullReport, { signers: publishedSigners })
      const theirs = await Promise.all(
        signatures.map(async ({ r, s, v }) => {
          const signature = { r: r as Hex, s: s as Hex, v: BigInt(v + 27) }
          return [
            ethersRecover(hash, { r, s, v: v + 27 }).toLowerCase(),
            (await recoverAddress({ hash, signature })).toLowerCase(),
          ]
        }),
      )
      expect(theirs).toEqual(ours.map(each => [each, each]))
    },
  )
})

type Alter = NonNullable<Making['alter']>

/** Replaces the first s by the other one, with its v. */
const withS =
  (change: (s: bigint) => bigint, flipsV = false): Alter =>
  envelope => ({
    ...envelope,
    ss: envelope.ss.map((s, index) => (index === 0 ? word(change(BigInt(s))) : s)),
    vs: flipsV ? `0x0${1 - Number(envelope.vs[3])}${envelope.vs.slice(4)}` : envelope.vs,
  })
const withR =
  (r: bigint): Alter =>
  envelope => ({
    ...envelope,
    rs: [word(r), ...envelope.rs.slice(1)],
  })
const withV =
  (v: string): Alter =>
  envelope => ({
    ...envelope,
    vs: `0x${v}${envelope.vs.slice(4)}`,
  })

describe.each(libraries)('a report is refused (%s)', curveLibrary => {
  const cases: readonly (readonly [
    string,
    VerificationFailure,
    Making,
    Partial<VerifyReportOptions>?,
  ])[] = [
    ['that f signers have signed', 'too-few-signatures', { by: [0, 1] }],
    ['without signatures', 'too-few-signatures', { by: [] }],
    ['that a signer has signed twice', 'repeated-signer', { by: [0, 1, 0] }],
    ['that somebody else has signed too', 'unknown-signer', { by: [0, 1, 2, 9] }],
    ['that somebody else has signed', 'unknown-signer', { by: [0, 9, 2] }],
    ['with more signatures than signers', 'too-many-signatures', { by: [0, 1, 2, 3, 4, 5, 6, 0] }],
    [
      'with more than exactly f + 1',
      'too-many-signatures',
      { by: [0, 1, 2, 3] },
      { quorum: 'exactly' },
    ],
    ['with a mirrored signature', 'high-s', { alter: withS(s => ORDER - s, true) }],
    ['with an s of zero', 'bad-signature', { alter: withS(() => 0n) }],
    ['with an s that is the order', 'bad-signature', { alter: withS(() => ORDER) }],
    ['with the greatest s there is', 'bad-signature', { alter: withS(() => 2n ** 256n - 1n) }],
    ['with an s just below the order', 'high-s', { alter: withS(() => ORDER - 1n) }],
    ['with an r of zero', 'bad-signature', { alter: withR(0n) }],
    ['with an r that is the order', 'bad-signature', { alter: withR(ORDER) }],
    ['with an r that is no point’s', 'bad-signature', { alter: withR(5n) }],
    ['with a v of 2', 'bad-recovery-id', { alter: withV('02') }],
    ['with a v of 27', 'bad-recovery-id', { alter: withV('1b') }],
    ['with a v of 255', 'bad-recovery-id', { alter: withV('ff') }],
    ['with a v of its own turned', 'unknown-signer', { alter: withS(s => s, true) }],
    [
      'with something behind the last v',
      'malformed',
      { alter: envelope => ({ ...envelope, vs: `${envelope.vs.slice(0, -1)}1` as `0x${string}` }) },
    ],
    ['of another feed', 'wrong-feed', {}, { feedID: published(0).feedID }],
    ['of another time', 'wrong-time', {}, { observationsTimestamp: TIME + 1 }],
    ['that holds from another time', 'wrong-time', {}, { validFromTimestamp: TIME }],
    ['that has expired', 'expired', {}, { checkExpiry: true }],
    [
      'of an unknown configuration',
      'unknown-digest',
      { digest: OTHER_DIGEST },
      { signers: { ...signers, configDigest: DIGEST } },
    ],
    ['before its signers', 'not-active', {}, { signers: { ...signers, activeFrom: TIME + 1 } }],
    ['after its signers', 'not-active', {}, { signers: { ...signers, activeUntil: TIME } }],
    [
      'in milliseconds, after its signers',
      'not-active',
      { resolution: 'ms' },
      { signers: { ...signers, activeUntil: TIME } },
    ],
  ]
  test.each(cases)('%s: %s', async (_, reason, making, options = {}) => {
    expect(await reasonOf(verify(makeReport(making), { curveLibrary, ...options }))).toBe(reason)
  })
})

describe('a report is verified', () => {
  const all = { ...signers, configDigest: DIGEST, activeFrom: TIME, activeUntil: TIME + 1 }
  const cases: readonly (readonly [string, Making, Partial<VerifyReportOptions>?])[] = [
    ['by f + 1 signers', {}],
    ['by all signers', { by: [6, 5, 4, 3, 2, 1, 0] }],
    ['by exactly f + 1', {}, { quorum: 'exactly' }],
    ['that has not expired', { expiresAt: 4_000_000_000 }, { checkExpiry: true }],
    [
      'in milliseconds that has not expired',
      { expiresAt: 4_000_000_000, resolution: 'ms' },
      { checkExpiry: true },
    ],
    ['by those of its time', {}, { signers: all }],
    ['in milliseconds by those of its time', { resolution: 'ms' }, { signers: all }],
    [
      'by the set that was active last',
      {},
      {
        signers: [
          { ...signers, signers: addresses.slice(5) },
          all,
          { ...all, activeFrom: 5, signers: addresses.slice(4) },
        ],
      },
    ],
    [
      'whose signers are written in capitals',
      {},
      {
        signers: {
          ...signers,
          signers: signers.signers.map(each => `0x${each.slice(2).toUpperCase()}`),
        },
      },
    ],
    ['that counts as older networks do', { extraHash: word(0) }],
  ]
  test.each(cases)('%s', async (_, making, options = {}) => {
    const { by = [0, 1, 2], extraHash } = making
    expect(await verify(makeReport(making), options)).toMatchObject({
      signers: by.map(index => addresses[index]),
      f: 2,
      sequenceNumber: extraHash === undefined ? 300 : undefined,
    })
  })
})

test.each([
  undefined,
  7,
  '',
  '0x',
  '0xzz',
  `0x${'0'.repeat(64 * 20)}`,
  `${published(0).fullReport}00`,
])('a value that is not a report is malformed: %.20p', async value => {
  expect(await reasonOf(verifyReport(value as string, { signers }))).toBe('malformed')
})

test('digits without 0x are malformed, and the error names the rule', async () => {
  const bare = makeReport().fullReport.slice(2)
  await expect(verifyReport(bare, { signers })).rejects.toMatchObject({
    reason: 'malformed',
    message: 'report is not verified: fullReport must begin with 0x',
  })
})

test('wrong options are rejected, each by its name', async () => {
  const { fullReport } = makeReport()
  const wrong = (options: object): Promise<unknown> =>
    verifyReport(fullReport, { signers, ...options }).catch(error => error)
  for (const [options, message] of [
    [{ quorum: 'most' }, "quorum must be 'at-least' or 'exactly', not 'most'"],
    [{ curveLibrary: 'elliptic' }, "curveLibrary must be 'auto', 'noble', 'secp256k1' or 'wasm'"],
    [{ signers: undefined }, 'signers is required'],
    [{ signers: 'me' }, 'signers must be a set, a list of sets or a function, not string'],
    [{ feedID: '0x00' }, 'feedID must be 0x and 64 hexadecimal digits'],
    [{ checkExpiry: 1 }, 'checkExpiry must be true or false'],
    [{ signal: 1 }, 'signal must be an AbortSignal'],
    [{ observationsTimestamp: '1' }, 'observationsTimestamp must be a number'],
    [{ signer: [] }, "unknown option 'signer' of verifyReport; did you mean 'signers'?"],
  ] as const)
    expect(await wrong(options)).toMatchObject({
      code: 'VALIDATION',
      message: expect.stringContaining(message),
    })
})

test('the source is called once for a configuration, however many reports there are', async () => {
  const calls: unknown[] = []
  async function source(...args: unknown[]): Promise<SignerSet> {
    calls.push(args)
    return signers
  }
  const made = makeReport()
  await Promise.all([verify(made, { signers: source }), verify(made, { signers: source })])
  await verify(made, { signers: source })
  expect(calls).toEqual([[DIGEST, { ...made, observationsTimestamp: TIME }]])
})

test('a signal ends the wait for the source', async () => {
  const controller = new AbortController()
  const never = () => new Promise<undefined>(() => undefined)
  const verifying = verify(makeReport(), { signers: never, signal: controller.signal })
  controller.abort(new Error('enough'))
  await expect(verifying).rejects.toThrow('enough')
})

test('the error of the source is the cause', async () => {
  const cause = new Error('no network')
  const failing = () => Promise.reject(cause)
  await expect(verify(makeReport(), { signers: failing })).rejects.toMatchObject({
    reason: 'signers-unavailable',
    cause,
  })
})

test('the error names the report and the rule', async () => {
  const made = makeReport({ by: [0, 9, 2] })
  await expect(verify(made, { feedID: made.feedID })).rejects.toMatchObject({
    name: 'ReportVerificationError',
    code: 'VERIFICATION',
    reason: 'unknown-signer',
    report: undefined,
    message: `report of feed ${made.feedID} is not verified: signature 1 is by none of the configured signers`,
  })
})
