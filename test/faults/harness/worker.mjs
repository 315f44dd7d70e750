// Runs one row with one SDK in a thread of its own, so that no row keeps another one waiting.
import { parentPort, workerData } from 'node:worker_threads'
import { readRows } from './rows.mjs'
import { runRow } from './run-row.mjs'

const { id, sdk, seed } = workerData
const row = (await readRows()).find(each => each.row === id)
try {
  parentPort.postMessage(await runRow(row, sdk, seed))
} catch (error) {
  parentPort.postMessage({ figures: {}, says: [], broken: String(error?.stack ?? error) })
}
