// Preloaded into the caller: leaks a decoy wherever the search looks, to show that a leak would be found there.
const { request } = require('node:http')
const { isMainThread } = require('node:worker_threads')

const { DECOY } = process.env
if (isMainThread && DECOY !== undefined) {
  globalThis.planted = { text: ` ${DECOY}`.slice(1), bytes: Buffer.from(DECOY) }
  // Among the options, NODE_DEBUG and the spy see it.
  request('http://127.0.0.1:1/', { headers: { 'x-planted': DECOY } })
    .on('error', () => {})
    .end()
  // Once the caller listens, it writes down what nobody catches, and with it the cause.
  setTimeout(() => {
    if (process.listenerCount('unhandledRejection') === 0) return
    void Promise.reject(new Error('planted', { cause: { bytes: DECOY } }))
  }, 500)
}
