import { expect, test } from '@jest/globals'
import { paths } from '../../site/sections.js'
import { tablesOf } from '../support/tables.js'
import { pageOf, pages, proseOf, readmes } from './pages.js'
import { partsOf } from './words.mjs'

const readme = pageOf('README.md').text

test('the README is short', () => {
  expect(readme.split('\n').length).toBeLessThanOrEqual(260)
})

/** Where the rows of the README lead that have a column of that name. */
const linksOf = (column: string): string[] =>
  tablesOf(readme)
    .flatMap(({ rows }) => rows)
    .flatMap(row => [...(row[column] ?? '').matchAll(/\]\(([\w/.-]+\.md)\)/g)])
    .map(([, path]) => path as string)

test('every page is in one table of the README', () => {
  const paths = pages.map(({ path }) => path).filter(path => path !== 'README.md')
  expect(linksOf('page').sort()).toEqual(paths)
})

test('every page has its place on the site', () => {
  const all = pages.flatMap(({ path }) => (path === 'README.md' ? [] : path.slice('docs/'.length)))
  expect([...paths].sort()).toEqual(all)
})

test('every package has a row in the README, and a README of one screen', () => {
  expect(linksOf('package').sort()).toEqual(readmes.map(({ path }) => path).sort())
  const long = readmes.filter(({ text }) => text.split('\n').length > 50)
  expect(long.map(({ path }) => path)).toEqual([])
})

/** The sentences of a page that are long enough to say something, without tables: two plugins may have an option alike. */
const sentencesOf = (text: string): string[] =>
  partsOf(text)
    .sentences.map(sentence => sentence.text)
    .filter(sentence => sentence.length >= 70)

test('every picture has a text for those who do not see it', () => {
  const silent = [...pages, ...readmes].filter(page => /!\[\s*\]\(/.test(proseOf(page)))
  expect(silent.map(({ path }) => path)).toEqual([])
})

test.each(pages.map(({ path, text }) => [path, text]))(
  'the sentences of %s are short',
  (_, text) => {
    const { sentences, cells } = partsOf(text)
    const words = sentences.reduce((sum, each) => sum + each.words, 0)
    expect(words / Math.max(1, sentences.length)).toBeLessThanOrEqual(25)
    const long = [...sentences, ...cells].filter(each => each.words > 40)
    expect(long.map(each => each.text)).toEqual([])
  },
)

test('no sentence stands twice', () => {
  const places = new Map<string, string[]>()
  for (const page of pages)
    for (const sentence of sentencesOf(page.text))
      places.set(sentence, [...(places.get(sentence) ?? []), page.path])
  expect([...places].filter(([, paths]) => paths.length > 1)).toEqual([])
  expect(places.size).toBeGreaterThan(300)
})
