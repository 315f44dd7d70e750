import { describe, expect, test } from '@jest/globals'
import { importsOf, isPlugin, isRelative, read, sources } from '../support/sources.js'

const engine = sources.filter(path => path.startsWith('core/'))

/** Names that hold such a word as a part of this project's name. */
const ownNames = /\b(DataStreamsError|isStreamsError)\b/g

/** What calls are about, and what carries them. */
const strangers: ReadonlySet<string> = new Set(
  [
    'report reports feed feeds origin origins stream streams cursor cursors backfill gap gaps',
    'enclave confidential secret secrets vault template templates',
    'http https header headers socket sockets websocket websockets ping pong fetch rest',
  ].flatMap(words => words.split(' ')),
)

/** `haDiscovery` and `ha-discovery` as `ha discovery`. */
const wordsOf = (text: string): string =>
  text
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .replace(/[^A-Za-z]+/g, ' ')
    .toLowerCase()

const pluginNames: readonly string[] = sources
  .filter(isPlugin)
  .filter(path => !path.includes('/decoders/'))
  .map(path => path.replace(/(\/index)?\.ts$/, '').replace(/^.*\//, ''))

/** Words of a text that belong to what runs on the engine: in names, comments and messages. */
function wrongWords(text: string): string[] {
  const words = wordsOf(text.replace(ownNames, ''))
  const found = words.split(' ').filter(word => strangers.has(word))
  const named = pluginNames.filter(name => ` ${words} `.includes(` ${wordsOf(name)} `))
  return [...found, ...named]
}

test('the engine has at most 840 lines of code', () => {
  const lines = engine.flatMap(path => read(path).split('\n'))
  const code = lines.filter(line => !/^\s*(\/?\*|\/\/|$)/.test(line))
  expect(code.length).toBeLessThanOrEqual(840)
})

describe('the engine knows nothing of what it carries', () => {
  test.each(engine)('%s imports its own files alone', path => {
    const foreign = importsOf(read(path)).filter(({ from, isType }) => !isRelative(from) && !isType)
    expect(foreign).toEqual([])
  })

  test.each(engine)('%s has no word of it', path => {
    expect(wrongWords(read(path))).toEqual([])
  })

  test.each([
    ['/** Takes a report. */', 'report'],
    ['const feedID = 1', 'feed'],
    ['let originIDs', 'origin'],
    ['new Headers()', 'headers'],
    ["throw new Error('the enclave was closed')", 'enclave'],
    ['/** Inside `retry`. */', 'retry'],
    ['function haDiscovery() {}', 'ha-discovery'],
    ['/** Above rate-limit. */', 'rate-limit'],
    ['const openStream = 1', 'stream'],
  ])('would notice: %s', (text, word) => {
    expect(wrongWords(text)).toEqual([word])
  })
})
