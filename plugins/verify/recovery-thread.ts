// The program of a thread that recovers signers. It gets batches of reports and answers them in their order.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type EngineChoice, loadEngine, noEngine } from './engine.js'
import { recoverSigners } from './recover-signers.js'
import type { Task } from './recovery.js'

const loading = loadEngine(workerData as EngineChoice)
const port = parentPort as MessagePort

async function answer(tasks: readonly Task[]): Promise<void> {
  const engine = await loading
  port.postMessage(
    tasks.map(({ fullReport, addresses }) =>
      engine === undefined ? noEngine : recoverSigners(fullReport, addresses, engine),
    ),
  )
}

port.on('message', (tasks: readonly Task[]) => void answer(tasks))
