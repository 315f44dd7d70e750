import { expect, test } from '@jest/globals'
import { allDecoders, decodeReport } from '../../index.js'
import { sampleReport } from '../../testing/reports.js'
import { testDecoder } from '../../testing/test-decoder.js'
import { publishedReports } from '../support/report/published-reports.js'

/** A sample of each unit. */
const samplesOf = (version: number) =>
  [0, 1].map(unit =>
    sampleReport({
      feedID: `0x${unit}${version.toString(16).padStart(3, '0')}${'ab'.repeat(30)}`,
      observationsTimestamp: unit === 0 ? 1_700_000_000 : 1_700_000_000_123,
    }),
  )

test.each(allDecoders)('V$version keeps the rules, with published reports', async decoder => {
  const published = publishedReports
    .filter(({ version }) => version === `V${decoder.version}`)
    .map(({ feedID, fullReport }) => {
      const { version, ...fields } = decodeReport(fullReport, feedID)
      return { feedID, fullReport, fields: { version, ...fields } }
    })
  const { blobs } = await testDecoder(decoder, {
    samples: [...samplesOf(decoder.version), ...published],
  })
  expect(blobs).toBeGreaterThan(1000)
})
