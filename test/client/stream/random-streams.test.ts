import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createCursors } from '../../../client/stream/cursors.js'
import { feedA } from '../../support/plugins/continuity.js'
import { runScenario, scenarios } from '../../support/plugins/random-streams.js'

test('whatever is lost, late, doubled, cut in pages or fails: a cursor is told enough to get to the end', async () => {
  await fc.assert(
    fc.asyncProperty(scenarios, async scenario => {
      const { delivered, gaps, vacant, last } = await runScenario(scenario)
      const store = { load: async () => ({}), save: async () => undefined }
      const cursors = createCursors({ store, failed: () => undefined })
      for (const each of delivered) cursors.consumed(each)
      for (const gap of gaps) cursors.skipped(gap)
      for (const [from = 0, to = 0] of vacant) cursors.skipped({ feedID: feedA, from, to })
      expect(cursors.frontier(feedA)).toBe(last)
    }),
    { numRuns: 60 },
  )
}, 60_000)
