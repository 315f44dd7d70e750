// The program of a thread that recovers signers. It gets batches of reports and answers them in their order.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type EngineChoice, loadEngine } from './engine.js'
import { createTimedRecovery, type Task } from './recovery.js'
import type { Answer } from './recovery-worker.js'

const loading = loadEngine(workerData as EngineChoice).then(createTimedRecovery)
const port = parentPort as MessagePort

async function answer(tasks: readonly Task[]): Promise<void> {
  const { recover, take } = await loading
  const recovered = tasks.map(recover)
  const answer: Answer = { recovered, timed: take() }
  port.postMessage(answer)
}

port.on('message', (tasks: readonly Task[]) => void answer(tasks))
