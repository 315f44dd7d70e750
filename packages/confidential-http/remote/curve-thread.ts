// The program of a thread that opens and seals messages. It answers its tasks in order.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type CurveKeys, type CurveTask, runCurveTask } from './curve-threads.js'

const keys = workerData as CurveKeys
const port = parentPort as MessagePort

port.on('message', (task: CurveTask) => port.postMessage(runCurveTask(task, keys)))
