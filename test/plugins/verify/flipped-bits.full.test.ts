import { expect, test } from '@jest/globals'
import { isStreamsError } from '../../../core/errors.js'
import { verifyReport } from '../../../index.js'
import type { VerificationFailure } from '../../../report/verifier.js'
import {
  flip,
  isNativeHere,
  published,
  publishedSigners,
} from '../../support/report/signed-reports.js'

const { fullReport } = published(8)
const bits = 4 * (fullReport.length - 2)

/** Why a report with a flipped bit is refused. */
async function refuse(bit: number): Promise<VerificationFailure> {
  const options = { signers: publishedSigners, curveLibrary: 'secp256k1' } as const
  const thrown = await verifyReport(flip(fullReport, bit), options).then(
    () => new Error('verified'),
    (error: unknown) => error,
  )
  if (isStreamsError(thrown, 'VERIFICATION')) return thrown.reason
  throw thrown
}

// The title names what is skipped: the binding of the optional peer is not installed on this machine.
const exhaustive = isNativeHere ? test : test.skip
exhaustive('a single flipped bit is noticed wherever it is (secp256k1)', async () => {
  const reasons: Partial<Record<VerificationFailure, number>> = {}
  for (let bit = 0; bit < bits; bit++) {
    const reason = await refuse(bit)
    reasons[reason] = (reasons[reason] ?? 0) + 1
  }
  expect(Object.keys(reasons).sort()).toEqual([
    'bad-recovery-id',
    'bad-signature',
    'high-s',
    'malformed',
    'unknown-signer',
  ])
  // Seven bits of each v, and the upper half of each s.
  expect(reasons['bad-recovery-id']).toBe(14)
  expect(reasons['high-s']).toBe(2)
})
