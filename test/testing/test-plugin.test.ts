import { expect, test } from '@jest/globals'
import type { Plugin } from '../../client/contract/plugin.js'
import { ConformanceError, testPlugin } from '../../testing/index.js'
import { scenarios } from '../../testing/plugin/scenarios.js'
import { tablesUnder } from '../docs/pages.js'
import { plantedFaults, withFault } from './planted.js'

const { setTimeout: realTimeout } = globalThis
/** Few feeds, so that a test takes a second. In the full tier there are feeds of all versions. */
const feedIDs = ['0x0003', '0x0007', '0x1003'].map(start => `${start}${'a5'.repeat(30)}`)
const passing = (name: string) => (): Plugin => ({ name, report: next => next })

test('a plugin without a fault passes, also after a test that a runner gave up', async () => {
  let isPlaying: () => void = () => undefined
  const playing = new Promise<void>(resolve => {
    isPlaying = resolve
  })
  const first = testPlugin(
    () => {
      if (setTimeout !== realTimeout) isPlaying()
      return passing('slow')()
    },
    { feedIDs },
  ).catch((error: Error) => error.message)
  await playing
  expect(await testPlugin(passing('next'), { feedIDs })).toEqual({ scenarios: 10 })
  expect(await first).toMatch(/^testPlugin of slow was ended by testPlugin of next/)
  expect(setTimeout).toBe(realTimeout)
})

test('a plugin that loses the reports of a feed fails', async () => {
  // Other faults are in `found.full.test.ts`.
  const make = (): Plugin => ({
    name: 'faulty',
    report: next => report => {
      if (!report.feedID.startsWith('0x0003')) next(report)
    },
  })
  const error = await testPlugin(make, { feedIDs }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ConformanceError)
  expect((error as ConformanceError).faults.map(fault => fault.rule)).toContain('drop')
})

test('the docs list the scenarios', () => {
  const rows = tablesUnder('docs/reference/testing-kit.md', 'The scenarios').flat()
  expect(rows.map(({ scenario }) => scenario)).toEqual(scenarios.map(({ name }) => name))
})

// The full tier looks for each of them by the scenarios.
test.each(plantedFaults)('$file can have the fault: $what', fault => {
  expect(withFault(fault)).not.toBe('')
})
