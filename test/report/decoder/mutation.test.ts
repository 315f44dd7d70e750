import { describe, expect, test } from '@jest/globals'
import { isStreamsError } from '../../../core/errors.js'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { toReport } from '../../../report/report.js'
import { checkMutants } from '../../support/report/decoder-mutants.js'
import { LIMIT, REPORTS } from '../../support/report/decoder-runs.js'
import { publishedReports } from '../../support/report/published-reports.js'
import { resolutions, THIRD_PARTY, versions } from '../../support/report/report-arbitrary.js'
import { inForm } from '../../support/tier.js'

describe.each(resolutions)('mutated reports with times in %s', resolution => {
  test.each([...versions, THIRD_PARTY])(
    'of version %i are refused or mean what they say',
    version => {
      const mutants = (10 * REPORTS) / resolutions.length
      const mutantsPerRun = 10
      const tally = checkMutants(version, resolution, {
        numRuns: mutants / mutantsPerRun,
        mutantsPerRun,
      })
      expect(tally.refused + tally.decoded).toBe(mutants)
      expect(tally.refused).toBeGreaterThan(mutants / 2)
      expect(tally.decoded).toBeGreaterThan(mutants / inForm(50, 10))
    },
    LIMIT,
  )
})

const [published] = publishedReports as [(typeof publishedReports)[0]]
const table = createDecoderTable(allDecoders)

test('a text of 10 MB is refused without being read', () => {
  const { feedID, fullReport } = published
  const size = 10_000_000
  const texts = [
    '0x'.padEnd(size, '0'),
    fullReport.padEnd(size, '0'),
    fullReport.padEnd(size, '\uff11'),
    ' '.repeat(size),
  ]
  for (const text of texts) {
    for (let time = 0; time < 1500; time++) {
      for (const read of [
        () => decodeReport(text, feedID),
        () => toReport({ feedID, fullReport: text }, 'test', table),
      ]) {
        try {
          read()
          throw new Error('it was taken for a report')
        } catch (error) {
          if (!isStreamsError(error, 'DECODING')) throw error
          if (error.message.length >= 400) throw new Error('its message is long')
        }
      }
    }
  }
  // Reading 120 GB would take longer than jest waits.
})
