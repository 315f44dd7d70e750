// The fault matrix against the built package: npm run faults -- --help; npm run faults -- soak is the long one.

import { readArguments } from '../support/arguments.mjs'
import { findServer, noServer } from '../support/nats/find-server.mjs'
import { runMatrix } from './harness/matrix.mjs'
import { readRows } from './harness/rows.mjs'
import { soak } from './soak.mjs'

const options = {
  rows: ['1,2,6b', 'these rows; 2 is 2a, 2b, … too'],
  seed: ['N', 'what everything random depends on (1)'],
  short: [undefined, 'the rows that npm test runs'],
  'ours-only': [undefined, 'without the official SDK'],
  'at-once': ['N', 'how many rows run at once (three for each core)'],
  bound: ['NAME=MOST', 'holds of every row in place of its own'],
  json: ['FILE', 'writes all figures there'],
  markdown: ['FILE', 'writes the table there'],
  record: [undefined, 'records the results for docs/records/reliability.md'],
}

/** `4` is every row of that number, `4b` that one. */
const isNamed = ({ row }, names) =>
  names.some(name => name === row || name === row.match(/^\d+/)[0])

/** A bound that holds of every row in place of its own: with one that can't be met, a row is seen to fail. */
function withBound(row, given) {
  if (given === undefined) return row
  const [name, most] = given.split('=')
  return { ...row, bound: { ...row.bound, [name]: Number(most) } }
}

/** Without the rows that need a server of NATS, where there is none; else their threads find it in the environment. */
function withWhatIsHere(rows) {
  const others = rows.filter(({ needs }) => needs !== 'nats-server')
  if (others.length === rows.length) return rows
  const server = findServer()
  if (server !== undefined) {
    process.env.NATS_SERVER = server
    return rows
  }
  const names = rows.filter(row => !others.includes(row)).map(({ row }) => row)
  console.error(`rows ${names.join(', ')} ${noServer}`)
  return others
}

const isCount = text => text === undefined || /^[1-9][0-9]{0,8}$/.test(text)

async function main(args) {
  if (args[0] === 'soak') return soak(args.slice(1))
  const all = await readRows()
  let rows = []

  function check({ values, positionals }) {
    if (positionals.length > 0) return `there is no ${positionals[0]}, but soak`
    if (!isCount(values.seed) || !isCount(values['at-once']))
      return '--seed and --at-once must be whole numbers from 1 on'
    if (values.record && (values['ours-only'] || values.bound !== undefined))
      return '--record takes both SDKs and the bounds of the rows'
    if (values.bound !== undefined && !/^\w+=-?\d+(\.\d+)?$/.test(values.bound))
      return '--bound must be a name and a number: lost=0'
    const names = values.rows?.split(',')
    const unknown = names?.filter(name => !all.some(row => isNamed(row, [name]))) ?? []
    if (unknown.length > 0) return `there is no row ${unknown.join(', ')}`
    rows = all
      .filter(row => names === undefined || isNamed(row, names))
      .filter(row => !values.short || row.short === true)
      .map(row => withBound(row, values.bound))
    return rows.length > 0 ? undefined : `none of these rows is in the short form: ${values.rows}`
  }

  const { values } = readArguments(args, {
    name: 'faults',
    usage: 'npm run faults -- [options], or npm run faults -- soak [options]',
    files: ['json', 'markdown'],
    options,
    check,
  })
  const isWhole = values.rows === undefined && !values.short
  await runMatrix(withWhatIsHere(rows), { seed: '1', ...values, isWhole })
}

await main(process.argv.slice(2))
