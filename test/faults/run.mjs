// The fault matrix against the built package: npm run faults -- [--rows 1,2,6b] [--short] [--seed N] [--ours-only]
// [--json FILE] [--markdown FILE] [--at-once N] [--bound NAME=MOST]; npm run faults -- soak is the long one.
import { parseArgs } from 'node:util'
import { runMatrix } from './harness/matrix.mjs'
import { readRows } from './harness/rows.mjs'
import { soak } from './soak.mjs'

const options = {
  rows: { type: 'string' },
  short: { type: 'boolean', default: false },
  seed: { type: 'string', default: '1' },
  'ours-only': { type: 'boolean', default: false },
  json: { type: 'string' },
  markdown: { type: 'string' },
  'at-once': { type: 'string' },
  bound: { type: 'string' },
}

function fail(message) {
  console.error(`faults: ${message}`)
  process.exitCode = 2
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

async function main(args) {
  if (args[0] === 'soak') return soak(args.slice(1))
  let values
  try {
    values = parseArgs({ args, options }).values
  } catch (error) {
    return fail(error.message)
  }
  const isCount = text => /^[1-9][0-9]{0,8}$/.test(text ?? '1')
  if (!isCount(values.seed) || !isCount(values['at-once']))
    return fail('--seed and --at-once must be whole numbers from 1 on')
  const names = values.rows?.split(',')
  const all = await readRows()
  const unknown = names?.filter(name => !all.some(row => isNamed(row, [name]))) ?? []
  if (unknown.length > 0) return fail(`there is no row ${unknown.join(', ')}`)
  const rows = all
    .filter(row => names === undefined || isNamed(row, names))
    .filter(row => !values.short || row.short === true)
    .map(row => withBound(row, values.bound))
  if (rows.length === 0) return fail(`none of these rows is in the short form: ${values.rows}`)
  await runMatrix(rows, { ...values, isWhole: names === undefined && !values.short })
}

await main(process.argv.slice(2))
