// Verification where secp256k1 has no binding. The package itself would continue with a library in JavaScript.
import { beforeAll, expect, jest, test } from '@jest/globals'
import { verifyReport } from '../../../index.js'
import { loadCurveLibrary } from '../../../plugins/verify/curve-libraries.js'
import { readVerifyOptions } from '../../../plugins/verify/options.js'
import { Verifier } from '../../../plugins/verify/verifier.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'

const loaded: string[] = []
beforeAll(() => {
  jest.mock(
    'secp256k1/bindings.js',
    () => {
      throw new Error('No native build was found')
    },
    { virtual: true },
  )
  for (const name of ['secp256k1', 'elliptic'])
    jest.mock(
      name,
      () => {
        loaded.push(name)
        return {}
      },
      { virtual: true },
    )
})

test('WebAssembly replaces it, and nothing of the package is used', async () => {
  const { fullReport } = makeReport()
  expect(await loadCurveLibrary('auto')).toMatchObject({
    name: 'wasm',
    note: 'the package secp256k1 is faster, and is not installed',
  })
  expect(await verifyReport(fullReport, { signers })).toMatchObject({ f: 2 })
  expect(loaded).toEqual([])
})

test('curveLibrary: secp256k1 gives an error, and no report passes', async () => {
  const made = makeReport()
  const failure = {
    reason: 'curve-library-unavailable',
    message: expect.stringContaining(
      'curveLibrary secp256k1 cannot be used: the package secp256k1',
    ),
  }
  await expect(
    verifyReport(made.fullReport, { signers, curveLibrary: 'secp256k1' }),
  ).rejects.toMatchObject(failure)
  const verifier = new Verifier(
    readVerifyOptions({ signers, curveLibrary: 'secp256k1', workers: 0 }),
  )
  const settled = new Promise(resolve => verifier.check(reportOf(made), resolve))
  expect(await settled).toMatchObject(failure)
})
