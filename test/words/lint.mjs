// Looks for retired words in all that is written here: part of `npm run lint`. Ends with 1 where it finds one.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findWords } from './find-words.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** The lists themselves, and data of others. */
const exempt = ['test/words/', 'test/vectors/']
const read = /\.(ts|mjs|cjs|md)$|^\.ci\/run$/

const args = ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate']
const deleted = new Set(
  execFileSync('git', ['ls-files', '--deleted'], { cwd: root, encoding: 'utf8' }).split('\n'),
)
const paths = execFileSync('git', args, { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter(path => read.test(path) && !deleted.has(path))
  .filter(path => !exempt.some(prefix => path.startsWith(prefix)))

let count = 0
for (const path of paths)
  for (const { line, word, instead } of findWords(path, readFileSync(join(root, path), 'utf8'))) {
    count++
    console.error(
      `${path}${line > 0 ? `:${line}` : ''}: "${word}" is retired; the field says: ${instead}`,
    )
  }
if (count > 0) {
  console.error(`${count} retired words; test/words/words.mjs lists them`)
  process.exitCode = 1
}
