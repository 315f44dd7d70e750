// Runs benchmarks against the built package: npm run bench, or npm run bench -- NAME … for some of them; and compares two runs.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, platform } from 'node:os'
import { readRows } from '../faults/harness/rows.mjs'
import { readArguments } from '../support/arguments.mjs'
import { recordRows, updatePages } from '../support/results.mjs'
import { printComparison, readRun } from './compare.mjs'
import { buildSisters, sisterNames, titleOf } from './sisters.mjs'
import { markdown, printTable } from './table.mjs'
import { versionsOf } from './versions.mjs'

const names = [
  'decode',
  'stream',
  'origins',
  'pipeline',
  'fast',
  'telemetry',
  'stages',
  'load',
  'rest',
  'scaling',
  'delay',
  'latency',
  'verify',
  'proof',
  'quickjs',
  'confidential-http',
  'sinks',
]

const sidesIn = ({ sides }) => (sides === undefined ? [] : sides.split(','))

function check({ values, positionals }) {
  if (positionals[0] === 'compare') {
    if (positionals.length !== 3) return 'compare needs two files that --json wrote'
    const [option] = Object.keys(values)
    return option && `--${option} is of a run, not of compare`
  }
  const unknown = positionals.find(name => !names.includes(name))
  if (unknown !== undefined) return `there is no ${unknown}, but ${names.join(', ')}, and compare`
  const side = sidesIn(values).find(name => !sisterNames.includes(name))
  if (side !== undefined)
    return `--sides must be of ${sisterNames.join(',')}: there is no "${side}"`
  return undefined
}

const { values, positionals } = readArguments(process.argv.slice(2), {
  name: 'bench',
  usage: [
    `npm run bench -- [NAME …] [options], where NAME is of ${names.join(', ')}`,
    '       npm run bench -- compare A.json B.json, two files that --json wrote',
  ].join('\n'),
  options: {
    sides: ['LIST', `more sides: ${sisterNames.join(',')}, the official SDKs of these languages`],
    json: ['FILE', 'writes the run there: machine, versions, load and figures'],
    record: [undefined, 'records the figures for docs/records/performance.md'],
  },
  files: ['json'],
  check,
})

function compare(paths) {
  try {
    printComparison(paths, paths.map(readRun))
  } catch (error) {
    console.error(`bench: ${error.message}`)
    process.exit(2)
  }
}

const heading = ['goal', 'measured', 'least to most', 'met']
const cellsOf = ({ work, goal, figure, spread, isMet }) => [
  work,
  goal,
  figure,
  spread,
  isMet === undefined ? '' : isMet ? 'yes' : 'NO',
]

/** Runs these benchmarks one after the other, and prints what they found. */
async function measure(wanted, sisters) {
  const rows = []
  for (const name of wanted) {
    const { default: bench } = await import(`./${name}.bench.mjs`)
    console.log(`\n${name}\n`)
    const compared = (await bench({ sisters })) ?? []
    if (compared.length > 0) printTable('against the goals', heading, compared.map(cellsOf))
    rows.push(...compared.map(row => ({ bench: name, ...row })))
  }
  return rows
}

async function record(run, wanted, rows) {
  const place = ({ bench }) => names.indexOf(bench)
  recordRows('bench', {
    run,
    rows: rows.map(({ bench, work, goal, figure, spread, isMet, detail = '' }) => ({
      ...{ bench, work, goal, figure, spread, isMet, detail },
    })),
    keyOf: ({ bench, work }) => `${bench} ${work}`,
    order: (one, other) => place(one) - place(other),
    replaces: ({ bench }) => wanted.includes(bench),
  })
  console.log(`recorded, in ${updatePages(await readRows()).join(', ')}`)
}

const loadNow = () => Number(loadavg()[0].toFixed(2))

async function run(wanted) {
  const date = new Date().toISOString()
  const cores = cpus()
  const machine = `${cores.length} × ${cores[0]?.model ?? 'unknown processor'}, ${platform()}, Node ${process.version}`
  console.log(machine)
  // Before the sisters are built, which is work of our own.
  const before = loadNow()
  if (before > cores.length / 4)
    console.log(`load ${before}: the machine does other work too, which blurs times`)
  const asked = sidesIn(values)
  if (asked.length > 0) console.log(`building ${asked.join(', ')}: at first that takes minutes`)
  const sisters = buildSisters(asked, (name, reason) =>
    console.log(`${titleOf(name)} is left out: ${reason}`),
  )
  const started = performance.now()
  const rows = await measure(wanted, sisters)
  const seconds = Math.round((performance.now() - started) / 1000)
  console.log(`${markdown(rows)}\n`)
  console.log(`${machine}; ${seconds} s`)
  if (values.json !== undefined) {
    const sides = versionsOf(Object.keys(sisters))
    const load = { before, after: loadNow() }
    const text = JSON.stringify({ machine, date, seconds, load, sides, rows }, null, 2)
    writeFileSync(values.json, `${text}\n`)
  }
  if (values.record) await record(machine, wanted, rows)
}

if (positionals[0] === 'compare') compare(positionals.slice(1))
else await run(positionals.length > 0 ? positionals : names)
