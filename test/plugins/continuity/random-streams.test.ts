import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { runScenario, scenarios } from '../../support/plugins/random-streams.js'

test('whatever is lost, late, doubled, cut in pages or fails: each stored report is delivered once or in a gap', async () => {
  await fc.assert(
    fc.asyncProperty(scenarios, async scenario => {
      const { delivered, gaps, passed, cursor, published, last } = await runScenario(scenario)
      const { order, failures } = scenario
      const times = delivered.map(each => each.observationsTimestamp)
      expect(new Set(times).size).toBe(times.length)
      const got = new Set(times)
      const lost = published
        .map(each => each.observationsTimestamp)
        .filter(each => !got.has(each) && !gaps.some(gap => each >= gap.from && each <= gap.to))
      expect(lost).toEqual([])
      // A cursor passes what is delivered or announced, and gets to the end.
      expect(passed).toEqual([])
      expect(cursor).toBe(last)
      // No gap says that the service lacks a report that it has.
      const falsely = published
        .map(each => each.observationsTimestamp)
        .filter(each =>
          gaps.some(gap => gap.cause === 'upstream' && each >= gap.from && each <= gap.to),
        )
      expect(falsely).toEqual([])
      if (order === 'sorted') expect(times).toEqual([...times].sort((one, other) => one - other))
      if (failures.length < 6) expect(gaps.filter(gap => gap.cause === 'unavailable')).toEqual([])
      if (order === 'arrival') expect(gaps.filter(gap => gap.cause === 'bound')).toEqual([])
    }),
    { numRuns: 60 },
  )
}, 60_000)
