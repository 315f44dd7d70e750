// The program of a thread that recovers signers. It is given batches of reports, and answers each batch in its turn.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type EngineChoice, loadEngine, noEngine } from './engines/engine.js'
import { recoverSigners } from './recover-signers.js'

const loading = loadEngine(workerData as EngineChoice)
const port = parentPort as MessagePort

async function answer(reports: readonly string[]): Promise<void> {
  const engine = await loading
  port.postMessage(
    reports.map(report => (engine === undefined ? noEngine : recoverSigners(report, engine))),
  )
}

port.on('message', (reports: readonly string[]) => void answer(reports))
