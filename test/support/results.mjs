// What was measured, and the tables of it in the documents: `npm run tables` writes them.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { notShown } from '../faults/not-shown.mjs'

/** The recorded figures, by the name of their file in `docs/results/`. */
const fileOf = name => new URL(`../../docs/results/${name}.json`, import.meta.url)

/** What was recorded under a name: `runs` say on what machine, and each row has the index of its run. */
export const readResults = name => JSON.parse(readFileSync(fileOf(name), 'utf8'))

/**
 * Records the rows of a run, in place of those with the same key; `order` sorts all. `replaces` says which other rows are
 * outdated.
 */
export function recordRows(name, { run, rows, keyOf, order, replaces = () => false }) {
  const before = readResults(name)
  const keys = new Set(rows.map(keyOf))
  const others = before.rows
    .filter(row => !keys.has(keyOf(row)) && !replaces(row))
    .map(row => ({ ...row, run: before.runs[row.run] }))
  const all = [...others, ...rows.map(row => ({ ...row, run }))].sort(order)
  const runs = [...before.runs, run].filter(
    (each, at, list) => list.indexOf(each) === at && all.some(row => row.run === each),
  )
  const results = { runs, rows: all.map(row => ({ ...row, run: runs.indexOf(row.run) })) }
  writeFileSync(fileOf(name), `${JSON.stringify(results, null, 2)}\n`)
}

const line = cells => `| ${cells.map(cell => cell.replace(/[\n|]+/g, ' ').trim()).join(' | ')} |`

/** A table in Markdown. */
export const markdownTable = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map(line).join('\n')

/** On what machine the rows of each run were measured: those of the first run need not be named. `what` is what a name is of. */
function describeRuns({ runs, rows }, what, nameOf) {
  const named = runs.map((run, index) => {
    const of = [...new Set(rows.filter(row => row.run === index).map(nameOf))]
    if (index === 0)
      return runs.length === 1
        ? `Measured on ${run}.`
        : `The other ${what}s were measured on ${run}.`
    const list = of.map(name => `\`${name}\``)
    const names = [list.slice(0, -1).join(', '), list.at(-1)].filter(Boolean).join(' and ')
    return of.length === 1
      ? `The ${what} ${names} was measured on ${run}.`
      : `The ${what}s ${names} were measured on ${run}.`
  })
  return [...named.slice(1), named[0]].join('\n')
}

function faultTable(matrix) {
  const results = readResults('faults')
  const head = ['row', 'fault', 'sluice', 'official SDK']
  const cells = results.rows.map(({ row, fault, sluice, official }) => [
    row,
    fault,
    sluice,
    official,
  ])
  const recorded = new Set(results.rows.map(({ row }) => row))
  const open = matrix
    .filter(({ row }) => !recorded.has(row))
    .map(({ row, fault }) => ({ row, what: `${fault}: not recorded yet` }))
  const absent = [...notShown, ...open].map(({ row, what }) => `- row ${row}, ${what}`).join('\n')
  const table = markdownTable(head, cells)
  return `${describeRuns(results, 'row', ({ row }) => row)}\n\n${table}\n\nThe table does not show:\n\n${absent}`
}

function benchTable(isShown) {
  const { runs, rows } = readResults('bench')
  const shown = rows.filter(isShown)
  const used = runs.filter((_run, index) => shown.some(({ run }) => run === index))
  const results = {
    runs: used,
    rows: shown.map(row => ({ ...row, run: used.indexOf(runs[row.run]) })),
  }
  const hasGoals = shown.some(({ goal }) => goal !== '')
  const head = hasGoals
    ? ['work', 'goal', 'measured', 'least to most', 'met', 'details']
    : ['work', 'measured', 'least to most', 'details']
  const cells = shown.map(({ work, goal, figure, spread, isMet, detail }) => {
    const met = isMet === undefined ? '' : isMet ? 'yes' : '**no**'
    return hasGoals ? [work, goal, figure, spread, met, detail] : [work, figure, spread, detail]
  })
  return `${describeRuns(results, 'benchmark', ({ bench }) => bench)}\n\n${markdownTable(head, cells)}`
}

/** How a step is done, and what the step is: `node, real timers: stream`. */
const partsOf = step => (step.includes(': ') ? step.split(': ') : ['', step])

/** Steps by their host and how they are done; those of a host that went alike share a line. */
function hostTable() {
  const results = readResults('hosts')
  const groups = new Map()
  for (const { host, version, step, result, official } of results.rows) {
    const [how, what] = partsOf(step)
    const key = `${host}: ${how}`
    const group = groups.get(key) ?? {
      host: `${host} ${version}`,
      how,
      ok: [],
      fails: [],
      official: [],
    }
    groups.set(key, group)
    group[result].push(what)
    if (official === 'fails') group.official.push(what)
  }
  const lines = new Map()
  for (const { host, how, ...steps } of groups.values()) {
    const [ok, fails, official] = Object.values(steps).map(list => list.join('; '))
    const key = [host, ok, fails, official].join('|')
    const line = lines.get(key) ?? { host, hows: [], cells: [ok, fails, official] }
    lines.set(key, line)
    line.hows.push(how)
  }
  const head = ['host', 'how', 'passes', 'fails', 'fails with the official SDK']
  const cells = [...lines.values()].map(({ host, hows, cells }) => [
    host,
    hows.join('; '),
    ...cells,
  ])
  return `${describeRuns(results, 'host', ({ host }) => host)}\n\n${markdownTable(head, cells)}`
}

const kB = bytes => (bytes / 1000).toFixed(bytes < 100_000 ? 1 : 0)

/** What bundles do, for a target. */
function bundleTable(target) {
  const { runs, rows } = readResults('bundlers')
  const steps =
    target === 'node'
      ? ['decode', 'verify', 'rest', 'ha', 'gateway']
      : ['decode', 'verify', 'rest', 'stream', 'gateway']
  const titles = { rest: 'REST', ha: 'HA stream' }
  const head = [
    'bundler',
    'program',
    'settings',
    ...steps.map(step => titles[step] ?? step),
    'kB',
    'kB gzipped',
    'files',
    'warnings',
  ]
  const cells = rows
    .filter(row => row.target === target)
    .map(row => [
      ...[row.bundler, row.name, row.settings || 'none'],
      ...steps.map(step => {
        const cell = row.isMade ? (row.steps[step] ?? '') : 'FAILED'
        return cell === 'FAILED' ? '**no**' : cell
      }),
      ...[kB(row.bytes), kB(row.gzipped), `${row.files}`, `${row.warnings}`],
    ])
  const used = runs.length === 1 ? `Run on ${runs[0]}.\n\n` : ''
  return `${target === 'node' ? used : ''}${markdownTable(head, cells)}`
}

/** What a page of one or two functions weighs. */
function pageTable() {
  const { rows } = readResults('bundlers')
  const head = [
    'bundler',
    'functions',
    'kB',
    'kB gzipped',
    'kB gzipped, loaded at the start',
    'files',
  ]
  const cells = rows
    .filter(({ target }) => target === 'size')
    .map(row => [
      ...[row.bundler, `\`${row.name.replace(', ', '`, `')}\``],
      ...[kB(row.bytes), kB(row.gzipped), kB(row.atOnce), `${row.files}`],
    ])
  return markdownTable(head, cells)
}

/** What was said of each fault of a service. */
function operationsTable() {
  const results = readResults('operations')
  const head = [
    'service',
    'fault',
    'cause',
    'severity',
    'shown by Prometheus after',
    'line that the service logs',
  ]
  const cells = results.rows.map(({ service, fault, cause, severity, seconds, words }) => [
    ...[service, fault, `\`${cause}\``, severity, `${seconds} s`, words],
  ])
  return `${describeRuns(results, 'service', ({ service }) => service)}\n\n${markdownTable(head, cells)}`
}

const isConfidential = ({ bench }) => bench === 'confidential-http'

/** The tables, each with its page and the name that marks its place there. */
const tables = [
  { page: 'docs/records/reliability.md', name: 'faults', text: faultTable },
  {
    page: 'docs/records/performance.md',
    name: 'bench',
    text: () => benchTable(row => !isConfidential(row)),
  },
  { page: 'docs/records/hosts.md', name: 'hosts', text: hostTable },
  { page: 'docs/records/operations.md', name: 'operations', text: operationsTable },
  { page: 'docs/records/bundlers.md', name: 'bundles for Node', text: () => bundleTable('node') },
  { page: 'docs/records/bundlers.md', name: 'bundles for pages', text: () => bundleTable('web') },
  { page: 'docs/records/bundlers.md', name: 'small pages', text: pageTable },
  {
    page: 'docs/records/performance.md',
    name: 'confidential',
    text: () => benchTable(isConfidential),
  },
]

const placeOf = name =>
  new RegExp(`(<!-- ${name}: written by npm run tables -->\n)[\\s\\S]*?(<!-- end of ${name} -->)`)

/** The pages as they should be. Throws where one has no place for its table. */
function writePages(matrix) {
  const pages = new Map()
  for (const { page, name, text } of tables) {
    const url = new URL(`../../${page}`, import.meta.url)
    const before = pages.get(page) ?? readFileSync(url, 'utf8')
    if (!placeOf(name).test(before)) throw new Error(`${page} has no place for the table ${name}`)
    pages.set(
      page,
      before.replace(placeOf(name), (_all, start, end) => `${start}\n${text(matrix)}\n\n${end}`),
    )
  }
  return pages
}

/** Writes the tables into their pages; with `isCheck` only says which are outdated. `matrix` is all rows of faults. */
export function updatePages(matrix, isCheck = false) {
  const outdated = []
  for (const [page, text] of writePages(matrix)) {
    const path = fileURLToPath(new URL(`../../${page}`, import.meta.url))
    if (readFileSync(path, 'utf8') === text) continue
    outdated.push(page)
    if (!isCheck) writeFileSync(path, text)
  }
  return outdated
}
