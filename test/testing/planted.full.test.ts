import { rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { ConformanceError, testPlugin } from '../../testing/index.js'
import { root } from '../support/sources.js'
import { loadPlanted, plantedFaults, tested } from './planted.js'

const folder = join(root, 'test', 'testing', '.planted')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('there are at least 30 planted faults', () => {
  expect(plantedFaults.length).toBeGreaterThanOrEqual(30)
})

for (const [index, fault] of plantedFaults.entries()) {
  test(`${fault.file}: ${fault.what}`, async () => {
    const make = await loadPlanted(fault, join(folder, String(index)))
    const name = basename(fault.file.split('/')[0] as string, '.ts')
    const error = await testPlugin(make, tested[name]?.kit).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    if (!(error instanceof ConformanceError)) throw error ?? new Error('the kit found no fault')
    expect(error.message).toContain(`plugin ${name}`)
    const found = error.faults.find(each => each.rule === fault.rule)
    expect(found?.where.split(':')[0]).toBe(fault.scenario)
  }, 180_000)
}
