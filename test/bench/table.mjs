// What benchmarks print.
import { markdownTable } from '../support/results.mjs'
import { ratio, spread } from './rounds.mjs'

export const perSecond = rate => `${Math.round(rate).toLocaleString('en')}/s`

/** A number to three digits. */
export function short(value) {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en')
  return String(Number(value.toPrecision(3)))
}

const signs = { more: '≥', less: '≤' }

/** A figure beside its goal: as texts for tables, and its numbers, of which `better` says which way they should go. */
function compare(better, goal, unit, { median, min, max, rounds }, isMet) {
  return {
    goal: goal === undefined ? '' : `${signs[better]} ${goal}${unit}`,
    figure: `${short(median)}${unit}`,
    spread: rounds === undefined ? '' : `${short(min)} to ${short(max)}, ${rounds} rounds`,
    isMet: goal === undefined ? undefined : isMet,
    ...{ median, min, max, rounds, unit: unit.trim(), better },
  }
}

/** A figure that should be the goal or more; `times` by default. Without a goal it is told all the same. */
export const atLeast = (goal, figure, unit = ' times') =>
  compare('more', goal, unit, figure, figure.median >= goal)

/** A figure that should be the goal or less. */
export const atMost = (goal, figure, unit = '') =>
  compare('less', goal, unit, figure, figure.median <= goal)

/** Rows of text in columns. The first column is that of the names. */
export function printTable(title, head, rows) {
  const lines = [[title, ...head], ...rows].map(row => row.map(String))
  const widths = lines[0].map((_, column) => Math.max(...lines.map(line => line[column].length)))
  for (const line of lines) {
    const cells = line.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]),
    )
    console.log(cells.join('   '))
  }
  console.log()
}

/** What the sides received in a second, and that they were busy, and the server was not. Native threads may be busier than 100 %. */
export function printSides(title, sides) {
  printTable(
    title,
    ['reports/s', 'least to most', 'CPU µs/report', 'client busy', 'server busy'],
    Object.entries(sides).map(([side, list]) => {
      const of = pick => spread(list.map(pick))
      const rate = of(({ rate }) => rate)
      return [
        side,
        perSecond(rate.median),
        `${perSecond(rate.min)} to ${perSecond(rate.max)}`,
        short(of(({ cpuPerReport }) => cpuPerReport).median),
        `${of(({ busy }) => busy).median.toFixed()} %`,
        `${of(({ server }) => server.busy).median.toFixed()} %`,
      ]
    }),
  )
}

/**
 * How many times the reports of theirs ours takes in a second of processor time: the client is busy all the time, so that is
 * its rate, but other work on the machine does not blur it. The rates by the clock are told beside it.
 */
export function compareRates(goal, ours, theirs, library) {
  const rates = list => list.map(({ rate }) => rate)
  const costs = list => list.map(({ cpuPerReport }) => cpuPerReport)
  const byClock = ratio(rates(ours), rates(theirs)).median
  return {
    ...atLeast(goal, ratio(costs(theirs), costs(ours))),
    detail: `by the clock, sluice is ${short(byClock)} times as fast: sluice ${perSecond(spread(rates(ours)).median)}, ${library} ${perSecond(spread(rates(theirs)).median)}`,
  }
}

/** The goals and what was measured, as Markdown. */
export function markdown(rows) {
  const head = ['work', 'goal', 'measured', 'least to most', 'met', '']
  return markdownTable(
    head,
    rows.map(({ work, goal, figure, spread, isMet, detail = '' }) => [
      work,
      goal,
      figure,
      spread,
      isMet === undefined ? '' : isMet ? 'yes' : '**no**',
      detail,
    ]),
  )
}
