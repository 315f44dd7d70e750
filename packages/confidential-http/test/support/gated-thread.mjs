// A thread that starts once the test opens its gate, a number in shared memory. A second number says how it ended.
// It speaks as serve-thread.ts does. It answers every
// request but those for /never, hears nothing after one for /block, and ends at one for /exit. A third number counts its answers, and a fourth
// the threads that have started.
import { threadId, workerData } from 'node:worker_threads'

const { settings, port, counter } = workerData
const { gate } = settings
const sent = new Int32Array(counter)

function post(message) {
  port.postMessage(message)
  Atomics.add(sent, 0, 1)
  Atomics.notify(sent, 0)
}

process.on('exit', code => {
  post({ type: 'end', why: `exit code ${code}` })
  Atomics.store(gate, 1, code + 1)
  Atomics.notify(gate, 1)
})
port.on('close', () => process.exit())
port.on('message', ({ type, id, request }) => {
  if (type === 'live') return post({ type: 'alive' })
  if (type === 'cancel' || request.request.url === '/never') return
  if (request.request.url === '/block')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5000)
  if (request.request.url === '/exit') process.exit(3)
  post({ type: 'response', id, response: { statusCode: 200, threadId } })
  Atomics.add(gate, 2, 1)
  Atomics.notify(gate, 2)
})
Atomics.wait(gate, 0, 0)
post({ type: 'opened' })
Atomics.add(gate, 3, 1)
Atomics.notify(gate, 3)
