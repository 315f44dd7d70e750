import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from '@jest/globals'
import { order, packages, read, root } from '../support/sources.js'
import { anchorsOf, type Page, pages, proseOf, readmes } from './pages.js'

/** Documents that are no pages. */
const papers = [
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...packages.map(folder => `${folder}/CHANGELOG.md`),
].map((path): Page => ({ path, text: read(path) }))
const examples = ['examples/nestjs/README.md', 'examples/react/README.md'].map(
  (path): Page => ({ path, text: read(path) }),
)
const documents = [...pages, ...readmes, ...papers, ...examples]

/** What is wrong with the links of a page. */
function problemsOf(page: Page): string[] {
  const links = /\[[^\]]*\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"/g
  return [...proseOf(page).matchAll(links)].flatMap(([text, link, image]) => {
    const target = link ?? image ?? ''
    if (/^[a-z]+:/.test(target)) return []
    const [file = '', anchor] = target.split('#')
    const path = file === '' ? page.path : relative(root, join(root, dirname(page.path), file))
    if (!existsSync(join(root, path))) return [`${page.path}: ${text} leads to no file`]
    if (anchor === undefined) return []
    const linked = documents.find(each => each.path === path)
    const isThere = linked !== undefined && anchorsOf(linked).has(anchor)
    return isThere ? [] : [`${page.path}: ${text} leads to no heading`]
  })
}

test('no link is dead', () => {
  expect(documents.flatMap(problemsOf)).toEqual([])
})

test('a dead link is found', () => {
  const page = { path: 'docs/x.md', text: '# X\n\n## A `b`, c\n' }
  const dead = (link: string) => problemsOf({ ...page, text: `[x](${link})\n` })
  expect(dead('no-such-page.md')).toEqual(['docs/x.md: [x](no-such-page.md) leads to no file'])
  expect(dead('../README.md#no-such-heading')).toHaveLength(1)
  expect(dead('concepts/continuity.md#when-the-service-is-asked')).toEqual([])
  expect(anchorsOf(page)).toEqual(new Set(['x', 'a-b-c']))
})

test('every file that a page names in backticks is there', () => {
  const folders = [...new Set(order.map(path => path.split('/')[0]))].join('|')
  const named = new RegExp(
    `\`((?:${folders}|build|docs|test)/[\\w./-]+\\.(?:ts|mjs|md|json))\``,
    'g',
  )
  const missing = documents.flatMap(page =>
    page.path.endsWith('CHANGELOG.md')
      ? []
      : [...proseOf(page).matchAll(named)]
          .map(([, path = '']) => path)
          // `plugins/NAME.ts` is any of them.
          .filter(path => !/NAME|vN/.test(path) && !existsSync(join(root, path)))
          .map(path => `${page.path}: ${path}`),
  )
  expect(missing).toEqual([])
})
