import { expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { certify } from '../../certify/certify.js'
import type { CertifySubject } from '../../certify/context.js'
import { idsOf, linesOf, recordWith, subjectAt } from '../support/cli/certify.js'

test.concurrent('a service that keeps to the protocol has no deviation', async () => {
  const record = await recordWith([])
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(idsOf(record, 'not tested')).toEqual(['untested'])
  expect([record.exitCode, record.complete]).toEqual([0, true])
})

const subjectOf = (engine: DataEngine): CertifySubject => ({
  ...subjectAt(engine as never),
  signers: engine.network,
})

test.concurrent('the data engine has no deviation', async () => {
  await using engine = await startDataEngine({ origins: 2, history: 30 })
  const record = await certify(subjectOf(engine), new AbortController().signal)
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(idsOf(record, 'not tested')).toEqual(['untested'])
  expect(record.feeds).toHaveLength(5)
})
