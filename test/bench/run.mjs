// Runs benchmarks against the built package: npm run bench, or npm run bench -- NAME … for some of them.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, platform } from 'node:os'
import { readRows } from '../faults/harness/rows.mjs'
import { readArguments } from '../support/arguments.mjs'
import { recordRows, updatePages } from '../support/results.mjs'
import { markdown, printTable } from './table.mjs'

const names = [
  'decode',
  'stream',
  'origins',
  'pipeline',
  'telemetry',
  'load',
  'rest',
  'scaling',
  'delay',
  'verify',
  'confidential-http',
]

const { values, positionals } = readArguments(process.argv.slice(2), {
  name: 'bench',
  usage: `npm run bench -- [NAME …] [options], where NAME is of ${names.join(', ')}`,
  options: {
    json: ['FILE', 'writes the figures there'],
    record: [undefined, 'records the figures for docs/performance.md'],
  },
  files: ['json'],
  check({ positionals }) {
    const unknown = positionals.find(name => !names.includes(name))
    return unknown && `there is no ${unknown}, but ${names.join(', ')}`
  },
})
const wanted = positionals.length > 0 ? positionals : names
const started = performance.now()
const cores = cpus()
const machine = `${cores.length} × ${cores[0]?.model ?? 'unknown processor'}, ${platform()}, Node ${process.version}`
const load = loadavg()[0]
console.log(machine)
if (load > cores.length / 4)
  console.log(
    `load ${load.toFixed(1)}: the machine does other work too, which blurs what is told in time`,
  )
const rows = []
const heading = ['goal', 'measured', 'least to most', 'met']
const cellsOf = ({ work, goal, figure, spread, isMet }) => [
  work,
  goal,
  figure,
  spread,
  isMet === undefined ? '' : isMet ? 'yes' : 'NO',
]
for (const name of wanted) {
  const { default: bench } = await import(`./${name}.bench.mjs`)
  console.log(`\n${name}\n`)
  const compared = (await bench()) ?? []
  if (compared.length > 0) printTable('against the goals', heading, compared.map(cellsOf))
  rows.push(...compared.map(row => ({ bench: name, ...row })))
}
console.log(`${markdown(rows)}\n`)
console.log(`${machine}; ${((performance.now() - started) / 1000).toFixed()} s`)
if (values.json !== undefined)
  writeFileSync(values.json, `${JSON.stringify({ machine, rows }, null, 2)}\n`)
if (values.record) {
  const place = ({ bench }) => names.indexOf(bench)
  recordRows('bench', {
    run: machine,
    rows: rows.map(({ bench, work, goal, figure, spread, isMet, detail = '' }) => ({
      ...{ bench, work, goal, figure, spread, isMet, detail },
    })),
    keyOf: ({ bench, work }) => `${bench} ${work}`,
    order: (one, other) => place(one) - place(other),
    replaces: ({ bench }) => wanted.includes(bench),
  })
  console.log(`recorded, in ${updatePages(await readRows()).join(', ')}`)
}
