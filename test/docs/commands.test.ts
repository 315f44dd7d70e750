import { expect, test } from '@jest/globals'
import { runHere } from '../../packages/cli/test/support/cli.js'
import { manifest, read } from '../support/sources.js'
import { type Block, blocksOf, pages, readmes } from './pages.js'

const shells: readonly Block[] = [...pages, ...readmes]
  .flatMap(blocksOf)
  .filter(({ language }) => language === 'sh')

/** The lines of a shell's block without comments, each with the words behind a command of that name. */
function callsOf(name: string, { code }: Block): string[][] {
  return code
    .split('\n')
    .map(line => line.replace(/(^|\s)#.*/, ''))
    .flatMap(line => [...line.matchAll(new RegExp(`(?:^|[|(;&] *)${name} ([^|;&)<>]*)`, 'g'))])
    .map(([, words = '']) => words.trim().split(/\s+/))
}

test('every npm script that a document names is there', () => {
  const { scripts } = manifest as typeof manifest & { readonly scripts: Record<string, string> }
  const contributing = { path: 'CONTRIBUTING.md', text: read('CONTRIBUTING.md') }
  const named = [...pages, ...readmes, contributing].flatMap(({ path, text }) =>
    [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(match => [path, match[1] as string]),
  )
  expect(named.length).toBeGreaterThan(3)
  for (const [path, name] of named)
    expect([path, Object.keys(scripts)]).toContainEqual(expect.arrayContaining([name]))
})

const helps = new Map<string, Promise<string>>()

/** What a command says of itself. */
function helpOf(words: readonly string[]): Promise<string> {
  const name = words.join(' ')
  const known = helps.get(name)
  if (known !== undefined) return known
  const asked = runHere([...words, '--help']).then(({ out }) => out)
  helps.set(name, asked)
  return asked
}

test('every command in a block of a shell is there, with its options', async () => {
  const calls = shells.flatMap(block =>
    callsOf('sluice', block).map(words => ({ at: block.at, words })),
  )
  expect(calls.length).toBeGreaterThan(5)
  for (const { at, words } of calls) {
    const [command = '', sub = ''] = words
    const path = ['vault', 'audit', 'context'].includes(command) ? [command, sub] : [command]
    const help = await helpOf(path)
    expect([at, help]).toEqual([at, expect.stringContaining(`Usage: sluice ${path.join(' ')}`)])
    for (const option of words.filter(word => word.startsWith('--')))
      expect([at, help]).toEqual([at, expect.stringContaining(option.replace(/=.*/, ''))])
  }
})
