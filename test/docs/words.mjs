// The words of each page, the minutes it takes to read them, and how long its sentences and its table cells are.
// npm run words [-- PAGE...]      --long names the sentences over 25 words and the cells over 25 words, with their lines
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

/** Words that somebody reads in a minute. */
const READING_SPEED = 220

/** Words of a sentence, and of a cell, that is not too long. */
const LIMIT = 25

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The README, and every page in the folders of `docs/`. The reference of all exports is generated. */
export const pagePaths = [
  'README.md',
  ...readdirSync(`${root}docs`, { recursive: true })
    .filter(name => name.endsWith('.md') && !/^(index\.md|reference[\\/]api[\\/])/.test(name))
    .map(name => `docs/${name.replaceAll('\\', '/')}`)
    .sort(),
]

const countOf = text => text.split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length

/** What is read of Markdown: no code, no HTML, no addresses of links; inline code is a word. */
const read = text =>
  text
    .replace(/`[^`]*`/g, code => (/\s/.test(code) ? 'Code' : code.replace(/[.?!`]/g, '')))
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/<[^>]*>/g, '')
    .replace(/\*\*/g, '')

/** The sentences and the table cells of a page, each with its line. What the page quotes is not its own. */
export function partsOf(text) {
  const sentences = []
  const cells = []
  const lines = text
    .replace(/^---\n[\s\S]*?\n---\n/, front => front.replace(/[^\n]/g, ''))
    .replace(/^ *```[\s\S]*?^ *```$/gm, block => block.replace(/[^\n]/g, ''))
    .replace(/<(svg|details|script|style)\b[\s\S]*?<\/\1>/g, block => block.replace(/[^\n]/g, ''))
    .split('\n')
  let paragraph = ''
  let at = 0
  const end = () => {
    for (const sentence of read(paragraph).split(/(?<=[.?!:]["”)*]*)\s+(?=["“(*`]*[\p{Lu}\p{N}])/u))
      if (countOf(sentence) > 0)
        sentences.push({ line: at, text: sentence.trim(), words: countOf(sentence) })
    paragraph = ''
  }
  for (const [index, line] of lines.entries()) {
    if (/^\s*\|/.test(line)) {
      end()
      if (/^[\s|:-]+$/.test(line)) continue
      for (const cell of line.trim().replaceAll('\\|', '/').split('|').slice(1, -1))
        if (countOf(read(cell)) > 0)
          cells.push({ line: index + 1, text: read(cell).trim(), words: countOf(read(cell)) })
    } else if (/^\s*$|^#|^>/.test(line)) {
      end()
    } else {
      if (/^\s*([-*]|\d+\.) /.test(line)) end()
      if (paragraph === '') at = index + 1
      paragraph += `${line.replace(/^\s*([-*]|\d+\.) /, '').trim()} `
    }
  }
  end()
  return { sentences, cells }
}

const sum = parts => parts.reduce((total, { words }) => total + words, 0)

function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { long: { type: 'boolean' } },
  })
  const unknown = positionals.filter(path => !existsSync(`${root}${path}`))
  if (unknown.length > 0) {
    console.error(`words: there is no ${unknown.join(', ')}`)
    process.exit(2)
  }
  console.log('page | words | minutes | words a sentence | sentences over 25 | cells over 25')
  console.log('--- | --- | --- | --- | --- | ---')
  for (const path of positionals.length > 0 ? positionals : pagePaths) {
    const { sentences, cells } = partsOf(readFileSync(`${root}${path}`, 'utf8'))
    const words = sum(sentences) + sum(cells)
    const long = sentences.filter(each => each.words > LIMIT)
    const wide = cells.filter(each => each.words > LIMIT)
    const average = sentences.length === 0 ? '' : (sum(sentences) / sentences.length).toFixed(1)
    console.log(
      [path, words, Math.ceil(words / READING_SPEED), average, long.length, wide.length].join(
        ' | ',
      ),
    )
    if (values.long)
      for (const each of [...long, ...wide])
        console.log(`  ${path}:${each.line} (${each.words}) ${each.text}`)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
