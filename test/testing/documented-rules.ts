import { tablesUnder } from '../docs/pages.js'

/** The rules that the tables under a heading of docs/reference/testing-kit.md have, sorted. */
export function documentedRules(heading: string): string[] {
  const cells = tablesUnder('docs/reference/testing-kit.md', heading)
    .flat()
    .map(row => row.rule ?? '')
  return cells
    .flatMap(cell => [...cell.matchAll(/`([\w-]+)`/g)].map(([, rule = '']) => rule))
    .sort()
}
