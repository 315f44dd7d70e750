import { test } from 'node:test'
import { sampleReport, testDecoder } from 'sluice/testing'
import { v42 } from './index.js'

// A report of the service is a better sample, once you have one.
const feedID = `0x002a${'ab'.repeat(30)}`
const fields = { price: -3_141n, halted: true, updatedAt: 1_753_900_000_123_456_789n }
const { fullReport } = sampleReport({
  feedID,
  observationsTimestamp: 1_753_900_000,
  values: [-3_141n, true, 1_753_900_000_123_456_789n],
})

test('reads the fields of a report', async () => {
  await testDecoder(v42, { samples: [{ feedID, fullReport, fields }] })
})
