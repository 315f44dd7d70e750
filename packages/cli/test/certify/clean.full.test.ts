import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import type { Service } from '@sluice/test-support/service/service.js'
import { certify } from '../../certify/certify.js'
import { idsOf, linesOf, recordWith, subjectAt } from '../support/cli/certify.js'

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
}, 60_000)

test('the data engine has no deviation, with one origin', async () => {
  await using engine = await startDataEngine({ origins: 1, history: 30 })
  const subject = { ...subjectAt(engine as never), signers: engine.network }
  const record = await certify(subject, new AbortController().signal)
  expect(linesOf(record, 'deviation')).toEqual([])
  expect(idsOf(record, 'not tested')).toEqual(['reconnection', 'untested'])
  expect(record.feeds).toHaveLength(5)
})
