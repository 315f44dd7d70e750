import ts from 'typescript'
import { everywhere, inNames, names, phrases } from './words.mjs'

const isProse = terms => terms.includes('|') || terms.includes(' back') || /^(let|for) /.test(terms)

/** The retired words of a list, each with what takes its place and, where there is one, the pattern of paths. */
function wordsOf(list) {
  return new Map(
    list
      .filter(([terms]) => !isProse(terms))
      .flatMap(([terms, ...more]) => terms.split(' ').map(word => [word, more])),
  )
}

const wordsEverywhere = wordsOf(everywhere)
const wordsInNames = wordsOf(inNames)
const terms = everywhere
  .filter(([list]) => isProse(list))
  .map(([list, instead]) => [
    new RegExp(`\\b(?:${list.replaceAll(' ', '\\s+')})\\b`, 'gi'),
    instead,
  ])
const isAllowed = name => names.some(([pattern]) => pattern.test(name))

const blank = text => ' '.repeat(text.length)

/** The text with allowed phrases blanked, so that places stay the same. The changelog may quote former names. */
function blankPhrases(path, text) {
  const start = path === 'CHANGELOG.md' ? text.replace(/`[^`\n]*`/g, blank) : text
  return phrases.reduce((rest, [phrase]) => rest.replaceAll(phrase, blank(phrase)), start)
}

/** `maxHeldReports` and `max-held` as words, each with its place. */
function* partsOf(text) {
  for (const { 0: part, index } of text.matchAll(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g))
    yield [part.toLowerCase(), index]
}

function* findInText(text) {
  for (const [word, at] of partsOf(text)) {
    const [instead] = wordsEverywhere.get(word) ?? []
    if (instead !== undefined) yield { at, word, instead }
  }
  for (const [term, instead] of terms)
    for (const { 0: word, index } of text.matchAll(term)) yield { at: index, word, instead }
}

function* findInNames(path, text) {
  const source = ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest)
  const nodes = [source]
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    ts.forEachChild(node, child => void nodes.push(child))
    if (!ts.isIdentifier(node) || isAllowed(node.text)) continue
    for (const [word] of partsOf(node.text)) {
      const [instead, paths] = wordsInNames.get(word) ?? []
      if (instead !== undefined && (paths?.test(path) ?? true))
        yield { at: node.getStart(source), word, instead }
    }
  }
}

/** The retired words of a file, of its path first (line 0), then in the order they stand. */
export function findWords(path, text) {
  const isCode = /\.[mc]?[jt]s$/.test(path)
  const inPath = [...findInText(path)].map(({ word, instead }) => ({ line: 0, word, instead }))
  const found = [
    ...findInText(blankPhrases(path, text)),
    ...(isCode ? findInNames(path, text) : []),
  ]
  const lineOf = at => text.slice(0, at).split('\n').length
  return [
    ...inPath,
    ...found
      .sort((one, other) => one.at - other.at)
      .map(({ at, word, instead }) => ({ line: lineOf(at), word, instead })),
  ]
}
