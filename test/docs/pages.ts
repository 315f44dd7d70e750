import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { anchorOf } from '../../site/anchors.js'
import { packages, root } from '../support/sources.js'
import { type Row, tablesOf } from '../support/tables.js'
import { pagePaths } from './words.mjs'

/** A document for users. */
export interface Page {
  /** From the root of the repository: `docs/guides/streams.md`. */
  readonly path: string
  readonly text: string
}

/** A block of code in a page. */
export interface Block {
  /** The page and the line where the code begins: `docs/guides/streams.md:12`. */
  readonly at: string
  /** `ts`, `sh`, …; empty for a picture. */
  readonly language: string
  readonly code: string
}

const read = (path: string): Page => ({ path, text: readFileSync(join(root, path), 'utf8') })

/** The README, and every page of `docs/` that somebody has written. */
export const pages: readonly Page[] = pagePaths.map(read)

/** The README of each package. */
export const readmes: readonly Page[] = packages.map(folder => read(`${folder}/README.md`))

/** A page by its path. */
export function pageOf(path: string): Page {
  const page = pages.find(each => each.path === path)
  if (page === undefined) throw new Error(`there is no page ${path}`)
  return page
}

/** The blocks of a page. */
export function blocksOf({ path, text }: Page): Block[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = '', 2: code = '' }) => ({
      at: `${path}:${text.slice(0, index).split('\n').length + 1}`,
      language,
      code,
    }),
  )
}

/** The text of a page without its blocks, line for line. */
export function proseOf({ text }: Page): string {
  return text.replace(/^```[\s\S]*?^```$/gm, block => block.replace(/[^\n]/g, ''))
}

/** Headings as GitHub makes anchors of them: `Nothing lost` is `nothing-lost`. */
export function anchorsOf(page: Page): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of proseOf(page).matchAll(/^#{1,6} +(.+)$/gm)) {
    const anchor = anchorOf(heading)
    let unique = anchor
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`
    anchors.add(unique)
  }
  return anchors
}

/** The tables that stand under a heading of a page. */
export function tablesUnder(path: string, heading: string): (readonly Row[])[] {
  const found = tablesOf(pageOf(path).text).filter(table => table.heading === heading)
  if (found.length === 0) throw new Error(`${path} has no table under "${heading}"`)
  return found.map(({ rows }) => rows)
}
