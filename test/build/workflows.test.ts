import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { manifest, read, root } from '../support/sources.js'

const { scripts } = manifest as typeof manifest & { readonly scripts: Record<string, string> }
const folder = '.github/workflows'
const workflows = readdirSync(join(root, folder)).map(file => `${folder}/${file}`)

describe('the checks and the workflows', () => {
  test.each(['.ci/run', ...workflows])('%s runs scripts that there are', path => {
    const text = read(path)
    const named = [...text.matchAll(/npm run (?:--silent )?([a-z][\w:]*)|\bboth (\w+ \w+)/g)]
    const programs = [...text.matchAll(/\bnode ([\w/]+\.mjs)|run: (\.ci\/\w+)/g)]
    expect(named.length + programs.length).toBeGreaterThan(0)
    for (const [, one, two = ''] of named)
      for (const name of one === undefined ? two.split(' ') : [one])
        expect(Object.keys(scripts)).toContain(name)
    for (const [, one, other] of programs)
      expect([path, existsSync(join(root, one ?? other ?? ''))]).toEqual([path, true])
  })

  test.each(workflows)('%s has its actions by their digest, and their version beside it', path => {
    const used = read(path).match(/\buses: .*/g) ?? []
    expect(used.length).toBeGreaterThan(0)
    for (const line of used)
      expect(line).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })

  test('a job each day runs each part of the full tier', () => {
    const [, parts = ''] = /const parts = \{\n(.*?)\n\}/s.exec(read('test/run-full.mjs')) ?? []
    const names = [...parts.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name)
    const jobs = [...read(`${folder}/daily.yml`).matchAll(/^ {10}- (\w+)$/gm)]
    expect(names.length).toBeGreaterThan(9)
    expect(jobs.map(([, name]) => name)).toEqual(names)
  })

  test('an action is of one version', () => {
    const used = workflows.flatMap(path => read(path).match(/[\w-]+\/[\w-]+@[0-9a-f]{40}/g) ?? [])
    const names = new Set(used.map(each => each.split('@', 1)[0]))
    expect(new Set(used).size).toBe(names.size)
  })
})

test.each(Object.entries(scripts))('the script %s names programs that there are', (_, script) => {
  for (const [, program = ''] of script.matchAll(/\bnode ([\w/.-]+\.m?js)\b/g))
    if (!/^(node_modules|packages\/\w+\/dist)\//.test(program))
      expect([program, existsSync(join(root, program))]).toEqual([program, true])
})
