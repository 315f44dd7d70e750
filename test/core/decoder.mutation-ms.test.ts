import { expect, test } from '@jest/globals'
import { checkMutants } from './decoder-mutants.js'
import { versions } from './report-arbitrary.js'

test.each(versions)(
  'mutated reports of version %i, in milliseconds, are refused or mean what they say',
  version => {
    const tally = checkMutants(version, 'ms', { numRuns: 500, mutantsPerRun: 100 })
    expect(tally.refused + tally.decoded).toBe(50_000)
    expect(tally.refused).toBeGreaterThan(25_000)
    expect(tally.decoded).toBeGreaterThan(5_000)
  },
  120_000,
)
