// own realm: it measures the heap.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from '@jest/globals'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { toReport } from '../../../report/report.js'
import { publishedReports } from '../../support/report/published-reports.js'
import { mutants } from '../../support/report/report-mutations.js'

const [published] = publishedReports as [(typeof publishedReports)[0]]
const table = createDecoderTable(allDecoders)

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
