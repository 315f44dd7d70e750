import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from '@jest/globals'
import { isStreamsError } from '../../../core/errors.js'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { toReport } from '../../../report/report.js'
import { checkMutants } from '../../support/report/decoder-mutants.js'
import { LIMIT, REPORTS } from '../../support/report/decoder-runs.js'
import { publishedReports } from '../../support/report/published-reports.js'
import { resolutions, THIRD_PARTY, versions } from '../../support/report/report-arbitrary.js'
import { mutants } from '../../support/report/report-mutations.js'

describe.each(resolutions)('mutated reports with times in %s', resolution => {
  test.each([...versions, THIRD_PARTY])(
    'of version %i are refused or mean what they say',
    version => {
      const mutants = (10 * REPORTS) / resolutions.length
      const mutantsPerRun = 100
      const tally = checkMutants(version, resolution, {
        numRuns: mutants / mutantsPerRun,
        mutantsPerRun,
      })
      expect(tally.refused + tally.decoded).toBe(mutants)
      expect(tally.refused).toBeGreaterThan(mutants / 2)
      expect(tally.decoded).toBeGreaterThan(mutants / 10)
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
  const start = performance.now()
  for (const text of texts) {
    for (let time = 0; time < 250; time++) {
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
  // Reading 20 GB would take far longer on any machine.
  expect(performance.now() - start).toBeLessThan(2_000)
})

test('memory does not grow with the reports that are decoded or refused', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const { feedID, fullReport } = published
  const original = {
    version: 3,
    resolution: 's',
    feedID: feedID as `0x${string}`,
    fullReport: fullReport as `0x${string}`,
  } as const
  const decodeMutants = (seed: number): void => {
    for (const mutant of mutants(original, seed, 3000)) {
      try {
        decodeReport(mutant.fullReport, mutant.feedID)
        toReport(mutant, 'test', table)
      } catch {}
    }
  }
  const heapAfter = (seed: number): number => {
    decodeMutants(seed)
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = heapAfter(1)
  const after = [2, 3, 4].map(heapAfter)
  // 9000 reports of 1.5 kB went through: 13 MB, had they been kept.
  expect(Math.min(...after) - before).toBeLessThan(4_000_000)
})
