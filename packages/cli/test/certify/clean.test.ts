import { expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import type { Service } from '@sluice/test-support/service/service.js'
import { certify } from '../../certify/certify.js'
import type { CertifySubject } from '../../certify/context.js'
import { idsOf, linesOf, recordWith, subjectAt } from '../support/cli/certify.js'

test('a service that keeps to the protocol has no deviation', async () => {
  const record = await recordWith([])
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(idsOf(record, 'not tested')).toEqual(['untested'])
  expect([record.exitCode, record.complete]).toEqual([0, true])
})

test('slow answers are no deviation', async () => {
  const delay = 2200
  const slow = {
    found: [],
    plant: (service: Service) =>
      service.fail({ on: 'rest', answer: 'usual', delay, path: '/api/v1/feeds' }),
  }
  const record = await recordWith([slow])
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(linesOf(record, 'not tested')).toContainEqual(
    expect.stringMatching(/^time-tolerance: -3 s: 401, after 2\d\d\d ms/),
  )
}, 40_000)

const subjectOf = (engine: DataEngine): CertifySubject => ({
  ...subjectAt(engine as never),
  signers: engine.network,
})

test.each([1, 2])('the data engine has no deviation, with origins: %i', async origins => {
  await using engine = await startDataEngine({ origins, history: 30 })
  const record = await certify(subjectOf(engine), new AbortController().signal)
  expect(linesOf(record, 'deviation')).toEqual([])
  const alone = origins === 1 ? ['reconnection'] : []
  expect(idsOf(record, 'not tested')).toEqual([...alone, 'untested'])
  expect(record.feeds).toHaveLength(5)
})
