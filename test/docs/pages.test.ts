import { expect, test } from '@jest/globals'
import { tablesOf } from '../support/tables.js'
import { pageOf, pages, proseOf } from './pages.js'

const readme = pageOf('README.md').text

test('the README is short', () => {
  expect(readme.split('\n').length).toBeLessThanOrEqual(251)
})

test('every page is in the table of the README', () => {
  const rows = tablesOf(readme).find(({ heading }) => heading === 'Documentation')?.rows ?? []
  const named = rows.flatMap(({ page = '' }) =>
    [...page.matchAll(/\]\((docs\/[\w-]+\.md)\)/g)].map(([, path]) => path),
  )
  expect(named.sort()).toEqual(pages.map(({ path }) => path).filter(path => path !== 'README.md'))
})

/** The sentences of a page that are long enough to say something, without tables: two plugins may have an option alike. */
function sentencesOf(text: string): string[] {
  return text
    .split(/\n\s*\n|\n(?=[|-] )/)
    .map(part => part.replace(/\s+/g, ' ').trim())
    .filter(part => !part.startsWith('|'))
    .flatMap(part => part.split(/(?<=[.:;]) /))
    .filter(sentence => sentence.length >= 70)
}

test('no sentence stands twice', () => {
  const places = new Map<string, string[]>()
  for (const page of pages)
    for (const sentence of sentencesOf(proseOf(page)))
      places.set(sentence, [...(places.get(sentence) ?? []), page.path])
  expect([...places].filter(([, paths]) => paths.length > 1)).toEqual([])
  expect(places.size).toBeGreaterThan(300)
})
