// A thread that starts once the test opens its gate, a number in shared memory. A second number says how it ended.
// It speaks as serve-thread.ts does. It answers every request but those for /never.
import { workerData } from 'node:worker_threads'

const { settings, port, counter } = workerData
const { gate } = settings
const sent = new Int32Array(counter)

function post(message) {
  port.postMessage(message)
  Atomics.add(sent, 0, 1)
  Atomics.notify(sent, 0)
}

process.on('exit', code => Atomics.store(gate, 1, code + 1))
port.on('close', () => process.exit())
port.on('message', ({ type, id, request }) => {
  if (type !== 'cancel' && request.request.url !== '/never')
    post({ type: 'response', id, response: { statusCode: 200 } })
})
Atomics.wait(gate, 0, 0)
post({ type: 'opened' })
