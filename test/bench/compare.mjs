// Two files of `npm run bench -- --json`, side by side.
import { readFileSync } from 'node:fs'
import { printTable, short } from './table.mjs'

const isNumber = value => typeof value === 'number' && Number.isFinite(value)

/** Reads what a run wrote. Throws where the file is something else. */
export function readRun(path) {
  const fail = why => new Error(`${path} is not what --json writes: ${why}`)
  const text = readFileSync(path, 'utf8')
  let run
  try {
    run = JSON.parse(text)
  } catch {
    throw fail('it is not JSON')
  }
  const { machine, date, rows } = run ?? {}
  if (typeof machine !== 'string') throw fail('machine must be a string')
  if (typeof date !== 'string') throw fail('date must be a string')
  if (!Array.isArray(rows)) throw fail('rows must be an array')
  for (const [index, row] of rows.entries()) {
    const { bench, work, figure, median, min, max } = row ?? {}
    if ([bench, work, figure].some(value => typeof value !== 'string'))
      throw fail(`bench, work and figure of rows[${index}] must be strings`)
    if ([median, min, max].some(value => value !== undefined && !isNumber(value)))
      throw fail(`median, min and max of rows[${index}] must be numbers`)
  }
  return run
}

/** What a row is called: works of different benches may have the same name. */
const nameOf = ({ bench, work }) => `${bench}: ${work}`

/** How much the second figure differs from the first: in percent, or in points where the figures are percent themselves. */
function changeOf(one, other) {
  if (one.unit !== other.unit || !isNumber(one.median) || !isNumber(other.median)) return ''
  const isPercent = one.unit?.startsWith('%')
  const change = isPercent ? other.median - one.median : 100 * (other.median / one.median - 1)
  const sign = change > 0 ? '+' : ''
  return Number.isFinite(change) ? `${sign}${short(change)} ${isPercent ? 'points' : '%'}` : ''
}

/** Better or worse, where no round of one run is as any of the other; a figure of one round has no spread. */
function verdictOf(one, other) {
  const rounds = [one, other].map(row => row.rounds ?? 0)
  if (one.unit !== other.unit || Math.min(...rounds) < 2) return ''
  const isMore = other.min > one.max
  if (!isMore && other.max >= one.min) return ''
  return isMore === (one.better === 'more') ? 'better' : 'WORSE'
}

const cellOf = ({ figure, spread }) => (spread ? `${figure} (${spread})` : figure)

/** The rows that both runs have, in the order of the first, and what only one of them has. */
export function compareRuns(one, other) {
  const rowsOf = ({ rows }) => new Map(rows.map(row => [nameOf(row), row]))
  const [first, second] = [rowsOf(one), rowsOf(other)]
  const onlyIn = (rows, others) => [...rows.keys()].filter(name => !others.has(name))
  return {
    both: [...first].flatMap(([name, row]) => {
      const its = second.get(name)
      if (its === undefined) return []
      return [[name, cellOf(row), cellOf(its), changeOf(row, its), verdictOf(row, its)]]
    }),
    onlyFirst: onlyIn(first, second),
    onlySecond: onlyIn(second, first),
  }
}

function describe({ machine, date, load, sides = {} }) {
  const versions = Object.entries(sides).map(([side, version]) => `${side} ${version}`)
  const loads = load === undefined ? [] : [`load ${load.before} before and ${load.after} after`]
  return [date, machine, ...loads, ...versions].join('; ')
}

/** Prints both runs, row by row. */
export function printComparison(paths, runs) {
  for (const [index, path] of paths.entries()) console.log(`${path}: ${describe(runs[index])}`)
  const [one, other] = runs
  if (one.machine !== other.machine)
    console.log('The machines differ: ratios compare, times do not.')
  const { both, onlyFirst, onlySecond } = compareRuns(one, other)
  console.log()
  printTable('work', [...paths, 'change', 'spreads apart'], both)
  for (const name of onlyFirst) console.log(`only in ${paths[0]}: ${name}`)
  for (const name of onlySecond) console.log(`only in ${paths[1]}: ${name}`)
}
