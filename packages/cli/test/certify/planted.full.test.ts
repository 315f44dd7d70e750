import { beforeAll, expect, test } from '@jest/globals'
import type { CertifyRecord } from '../../certify/record.js'
import { idsOf, linesOf, recordWith } from '../support/cli/certify.js'
import { plants } from '../support/cli/plants.js'

/** How many services run at once. With more, a signature is five seconds old before its service has read it. */
const TOGETHER = 4

const records = new Map<string, CertifyRecord>()
beforeAll(async () => {
  const waiting = Object.entries(plants)
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, plant] = next
      records.set(name, await recordWith([plant]))
    }
  }
  await Promise.all(Array.from({ length: TOGETHER }, work))
}, 120_000)

test.each(Object.keys(plants))('%s: is found, and named by its check alone', name => {
  const record = records.get(name) as CertifyRecord
  expect([idsOf(record, 'deviation'), linesOf(record, 'deviation')]).toEqual([
    plants[name]?.found,
    expect.anything(),
  ])
  expect(record.exitCode).toBe(6)
})

/** These contradict others: signatures are accepted, pages have another order, an origin is dead. */
const apart: readonly string[] = [
  'the clock of the service is 30 s off',
  'a page leaves a report out',
  'an origin brings nothing once it is connected again',
]

test('all at once are found', async () => {
  const together = Object.entries(plants).filter(([name]) => !apart.includes(name))
  expect(together.length).toBeGreaterThan(20)
  const record = await recordWith(together.map(([, plant]) => plant))
  const expected = new Set(together.flatMap(([, { found }]) => found))
  expect(idsOf(record, 'deviation')).toEqual(expect.arrayContaining([...expected]))
})
