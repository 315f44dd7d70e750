import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { root } from '../support/sources.js'
import { programOf } from './blocks.js'
import { blocksOf, pageOf, pages, readmes } from './pages.js'

test('every block says its language, but for pictures', () => {
  for (const { at, language, code } of [...pages, ...readmes].flatMap(blocksOf)) {
    expect([at, language]).toEqual([
      at,
      expect.stringMatching(/^(ts|sh|js|json|promql|sql|conf|)$/),
    ])
    if (language === 'json') expect(() => JSON.parse(code)).not.toThrow()
    if (language === '') expect([at, code]).toEqual([at, expect.not.stringMatching(/^import /m)])
  }
})

test('a program takes for granted what its block does not declare', () => {
  const block = { at: 'x', language: 'ts' }
  expect(programOf({ ...block, code: 'use(apiKey)\n' })).toMatch(/^const apiKey = docsEngine/m)
  expect(programOf({ ...block, code: 'const { apiKey } = engine\n' })).not.toMatch(
    /^const apiKey = docsEngine/m,
  )
  const real = "const endpoint = 'https://api.testnet-dataengine.chain.link'\n"
  expect(programOf({ ...block, code: real })).toMatch(/^const endpoint = docsEngine\.endpoint$/m)
})

test('the settings of jest are those that the packed package is tested with', () => {
  const { code = '' } =
    blocksOf(pageOf('docs/guides/testing.md')).find(each =>
      each.code.includes('// jest.setup.js'),
    ) ?? {}
  const [config = '', setup = ''] = code.split('// jest.setup.js\n')
  const module = { exports: {} }
  new Function('module', config)(module)
  const project = join(root, 'test/package/jest/jsdom')
  const { jest } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as {
    readonly jest: unknown
  }
  expect(module.exports).toEqual(jest)
  const withoutComments = (text: string): string =>
    text.replace(/^\/\/.*\n/gm, '').replace(/\n+/g, '\n')
  expect(withoutComments(setup).trim()).toBe(
    withoutComments(readFileSync(join(project, 'jest.setup.js'), 'utf8')).trim(),
  )
})

test('every program of docs/records/hosts.md has a name, and is run by a host', () => {
  const folder = join(root, 'test/hosts')
  const programsOf = readdirSync(join(folder, 'programs'), { recursive: true, encoding: 'utf8' })
  const files = [...readdirSync(folder), ...programsOf.map(path => join('programs', path))]
  const hosts = files
    .filter(path => /\.m?js$/.test(path))
    .map(path => readFileSync(join(folder, path), 'utf8'))
    .join('\n')
  const programs = blocksOf(pageOf('docs/records/hosts.md')).filter(
    ({ language }) => language === 'js',
  )
  expect(programs.length).toBeGreaterThan(5)
  for (const { at, code } of programs) {
    const [, name] = /^\/\/ (\S+)\n/.exec(code) ?? []
    expect([at, name, hosts.includes(`docs/${name}'`)]).toEqual([at, expect.anything(), true])
  }
})

test('every page says what it is about', () => {
  for (const { path, text } of [...pages, ...readmes])
    expect([path, text.match(/^# .+/)]).not.toEqual([path, null])
  expect(pageOf('README.md').text).toMatch(/^# sluice/)
})
