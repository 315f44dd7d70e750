import { expect, test } from '@jest/globals'
import { idsOf, linesOf, recordWith } from '../support/cli/certify.js'
import { plants } from '../support/cli/plants.js'

/** Of each kind one: of a refusal, an answer, a stream and a signature. All are in planted.full.test.ts. */
const some = [
  'a wrong signature is answered 403',
  'bulk leaves out a feed with 200',
  'a stream sends text that is no JSON',
  'a report is signed by an outsider',
]

test.concurrent.each(some)('%s: is found, and named by its check', async name => {
  const plant = plants[name] as (typeof plants)[string]
  const record = await recordWith([plant])
  expect([idsOf(record, 'deviation'), linesOf(record, 'deviation')]).toEqual([
    plant.found,
    expect.anything(),
  ])
  expect(record.exitCode).toBe(6)
})
