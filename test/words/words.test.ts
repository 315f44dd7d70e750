import { expect, jest, test } from '@jest/globals'

interface Found {
  readonly line: number
  readonly word: string
  readonly instead: string
}
interface Finder {
  readonly findWords: (path: string, text: string) => readonly Found[]
}
const { findWords } = jest.requireActual<Finder>('./find-words.mjs')

test.each([
  ['client/x.ts', 'const freeLanes = 1', 1, 'lanes'],
  ['client/x.ts', '\n\nconst LANE_COUNT = 1', 3, 'lane'],
  ['client/x.ts', '// A lane is full.', 1, 'lane'],
  ['client/x.ts', "throw new Error('it was DENIED')", 1, 'denied'],
  ['client/x.ts', 'const text = `so many dials`', 1, 'dials'],
  ['client/lane-list.ts', '', 0, 'lane'],
  ['docs/x.md', 'Reports are\nheld back.', 2, 'held back'],
  ['client/x.ts', 'const announceLoss = 1', 1, 'announce'],
  ['docs/x.md', 'Connections that are let in', 1, 'let in'],
  ['docs/x.md', 'for who does not want to know', 1, 'for who'],
  ['client/x.ts', 'const myTurn = 1', 1, 'turn'],
  ['client/x.ts', 'call.tell()', 1, 'tell'],
  ['client/x.ts', 'interface X { announceLoss(): void }', 1, 'announce'],
  ['report/x.ts', 'function toRecord() {}', 1, 'record'],
  ['test/x.mjs', 'let told = 1', 1, 'told'],
])('notices in %s: %j', (path, text, line, word) => {
  expect(findWords(path, text)).toEqual([{ line, word, instead: expect.any(String) }])
})

test('finds all of a file, in order', () => {
  const found = findWords('client/x.ts', '// A stray, judged aside.\nconst told = goodbye')
  expect(found.map(({ line, word }) => `${line} ${word}`)).toEqual([
    '1 stray',
    '1 judged',
    '1 aside',
    '2 told',
    '2 goodbye',
  ])
})

test.each([
  ['client/x.ts', 'const x: Record<string, number> = {}'],
  ['client/x.ts', '// Each feed in turn: the log tells what was kept, and gaps are announced.'],
  ['client/x.ts', 'scope.announceGap(gap)'],
  ['client/x.ts', "const text = 'an Ethereum account'"],
  ['client/x.ts', 'const memory = planet.returned'],
  ['local/x.ts', 'interface RequestRecord {}'],
  ['CHANGELOG.md', '`dials` is now `attempts`'],
  ['test/x.mjs', 'fork(path, { silent: true })'],
  [
    'docs/x.md',
    'The client’s clock jumps an hour; `cat: Permission denied`; order books; npm --silent',
  ],
])('does not mind in %s: %j', (path, text) => {
  expect(findWords(path, text)).toEqual([])
})
