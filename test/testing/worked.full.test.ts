// The plugins of docs/guides/plugins.md that are tested there.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { ConformanceError } from '../../testing/index.js'
import { blocksOf, pageOf } from '../docs/pages.js'
import { root } from '../support/sources.js'

const folder = join(root, 'test', 'testing', '.worked')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const worked = blocksOf(pageOf('docs/guides/plugins.md')).filter(({ code }) =>
  code.includes('\nawait testPlugin('),
)

test('there are six', () => {
  expect(worked.map(({ code }) => /name: '(.+)'/.exec(code)?.[1])).toEqual([
    'drop-stale',
    'conflate',
    'cache',
    'circuit-breaker',
    'recorder',
    'custom-wire',
  ])
})

/** Loads the code of a page, with its test as the function `run`. */
async function load(name: string, code: string): Promise<() => Promise<{ scenarios: number }>> {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `${name}.ts`)
  writeFileSync(path, code.replace('\nawait testPlugin(', '\nexport const run = () => testPlugin('))
  const { run } = (await import(path)) as { run(): Promise<{ scenarios: number }> }
  return run
}

for (const [index, { code, at }] of worked.entries()) {
  test(`the plugin of ${at} keeps the rules`, async () => {
    const run = await load(`worked-${index}`, code)
    const { scenarios } = await run()
    expect(scenarios).toBe(10)
  }, 180_000)
}

describe('of the plugin that holds reports and drops others, the kit finds', () => {
  test.each([
    ['ending', "scope.events.on('ending', flush)\n", '\n'],
    ['hide', 'reject(error)', 'drop()'],
    ['settle', 'for (const { drop } of held.values()) drop()', ''],
    ['timer', 'clearInterval(timer)', ''],
  ])(
    'the fault %s',
    async (rule, line, change) => {
      const code = worked[1]?.code as string
      expect(code).toContain(line)
      const run = await load(`conflate-${rule}`, code.replace(line, change))
      const error = await run().catch(thrown => thrown)
      expect(error).toBeInstanceOf(ConformanceError)
      expect((error as ConformanceError).faults.map(fault => fault.rule)).toContain(rule)
    },
    180_000,
  )
})
