// Writes the tables of recorded results into their pages: npm run tables. With --check it changes nothing, and ends with 1
// where a page is outdated, or a recorded row of the fault matrix is not today's.
import { readRows } from '../faults/harness/rows.mjs'
import { readResults, updatePages } from '../support/results.mjs'

const isCheck = process.argv.includes('--check')
const matrix = await readRows()

/** The recorded rows whose fault is another today, or gone. */
function findOutdatedRows() {
  const faults = new Map(
    matrix.map(({ row, fault }) => [row, fault.replace(/[\n|]+/g, ' ').trim()]),
  )
  return readResults('faults')
    .rows.filter(({ row, fault }) => faults.get(row) !== fault)
    .map(({ row }) => row)
}

for (const page of updatePages(matrix, isCheck)) {
  console.log(isCheck ? `${page} is outdated: npm run tables` : `${page} is written`)
  if (isCheck) process.exitCode = 1
}
const rows = findOutdatedRows()
if (rows.length > 0) {
  console.log(`outdated results: npm run faults -- --record --rows ${rows.join(',')}`)
  process.exitCode = 1
}
