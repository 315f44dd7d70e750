// Prints the lines of code of each room, a folder of the root or a package, beside its budget. Fails if a room is over budget.
// A budget rises only in the commit that adds an idea, which says what a user gets for it.
//   node build/size.mjs [--set]
// --set  makes what there is the budgets, for a commit in which an idea goes
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

/** The room of all tests, which has no budget. */
const TESTS = 'tests'
const BUDGETS = new URL('size.json', import.meta.url)

/** Counts the lines that are neither empty nor a comment. */
function countLines(text) {
  const code = text.replace(/^\s*\/\*[\s\S]*?\*\/\s*$/gm, '')
  return code.split('\n').filter(line => !/^\s*(\/\/|$)/.test(line)).length
}

/** The room of a file. All tests are in one room. */
function roomOf(file) {
  const [first, second, ...rest] = file.split('/')
  if (/(^|\/)test\//.test(file)) return TESTS
  if (second === undefined) return '.'
  return first === 'packages' && rest.length > 0 ? `${first}/${second}` : first
}

const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'])
const sizes = new Map()
for (const file of listed.toString().split('\0')) {
  if (!/\.(ts|tsx|js|mjs|cjs|vue)$/.test(file)) continue
  let text
  try {
    text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')
  } catch {
    continue // Deleted, and still in the index.
  }
  sizes.set(roomOf(file), (sizes.get(roomOf(file)) ?? 0) + countLines(text))
}
const rooms = [...sizes].sort(([one], [other]) => (one < other ? -1 : 1))

if (process.argv.includes('--set')) {
  const kept = Object.fromEntries(rooms.filter(([room]) => room !== TESTS))
  writeFileSync(BUDGETS, `${JSON.stringify(kept, undefined, 2)}\n`)
}
const budgets = JSON.parse(readFileSync(BUDGETS, 'utf8'))

const print = (room, lines, budget) =>
  console.log(`${room.padEnd(32)} ${String(lines).padStart(6)}   ${String(budget).padStart(6)}`)

let total = 0
let allowed = 0
const over = []
print('room', 'lines', 'budget')
for (const [room, lines] of rooms) {
  if (room === TESTS) {
    print(room, lines, 'none')
    continue
  }
  const budget = budgets[room] ?? 0
  if (lines > budget) over.push(`${room}: ${lines - budget} lines over its budget`)
  total += lines
  allowed += budget
  print(room, lines, budget)
}
print('all but tests', total, allowed)
for (const line of over) console.error(`size: ${line}`)
if (over.length > 0)
  console.error(
    'size: an idea has a price. What goes for it? Raise the budget in build/size.json only with the idea, and say who gains.',
  )
process.exitCode = over.length > 0 ? 1 : 0
