// The plugins of docs/plugins.md that are tested there.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from '@jest/globals'
import { blocksOf, pageOf } from '../docs/pages.js'
import { root } from '../support/sources.js'

const folder = join(root, 'test', 'testing', '.worked')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const worked = blocksOf(pageOf('docs/plugins.md')).filter(({ code }) =>
  code.includes('\nawait testPlugin('),
)

test('there are five', () => {
  expect(worked.map(({ code }) => /name: '(.+)'/.exec(code)?.[1])).toEqual([
    'drop-stale',
    'cache',
    'circuit-breaker',
    'recorder',
    'custom-wire',
  ])
})

for (const [index, { code, at }] of worked.entries()) {
  test(`the plugin of ${at} keeps the rules`, async () => {
    mkdirSync(folder, { recursive: true })
    const path = join(folder, `worked-${index}.ts`)
    writeFileSync(
      path,
      code.replace('\nawait testPlugin(', '\nexport const run = () => testPlugin('),
    )
    const { run } = (await import(path)) as { run(): Promise<{ scenarios: number }> }
    const { scenarios } = await run()
    expect(scenarios).toBeGreaterThan(30)
  }, 60_000)
}
