import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RequestScope } from 'sluice/client'
import type { Report } from 'sluice/report'
import { sampleReport, testPlugin } from 'sluice/testing'
import { dropOld } from './index.js'

test('keeps the rules of a plugin', async () => {
  await testPlugin(() => dropOld(60_000), { may: ['drop'] })
})

test('drops a report that is older than the limit', () => {
  const passed: number[] = []
  const scope = { client: { now: () => 100_000 } } as RequestScope
  const pass = dropOld(10_000).report?.(report => passed.push(report.observationsTimestamp), scope)
  const feedID = `0x0003${'ab'.repeat(30)}`
  for (const observationsTimestamp of [89, 90, 100])
    pass?.(sampleReport({ feedID, observationsTimestamp }) as Report)
  assert.deepEqual(passed, [90, 100])
})
