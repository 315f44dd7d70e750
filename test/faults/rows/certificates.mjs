// TLS that does not come about.
import { tryToConnect } from '../harness/attempt.mjs'
import { putTLSInFront } from '../harness/tls.mjs'

const wrong = (row, fault, how, cause) => ({
  row,
  fault,
  connect: false,
  options: { maxReconnectAttempts: 1, reconnectInterval: 200 },
  bound: { attempts: 2, isNamed: true, lost: undefined },
  seconds: 4,
  prepare: world => putTLSInFront(world, how),
  async run(world) {
    const error = await tryToConnect(world)
    world.measured.isNamed = cause.test(error?.message)
  },
})

export default [
  wrong('9a', 'the certificate has expired', { daysAgo: 3 }, /expired/),
  wrong('9b', 'the certificate is for another host', { hosts: ['elsewhere.test'] }, /altnames/),
  wrong('9c', 'an unknown authority signed the certificate', { isTrusted: false }, /certificate/),
  {
    row: '9d',
    fault: 'the connection is reset; for 2 s after that, every TLS handshake is reset',
    bound: { recover: 4500, backfill: 2500, attempts: 4 },
    seconds: 10,
    async prepare(world) {
      world.front = await putTLSInFront(world)
    },
    async run({ front, engine, begin, end, pause }) {
      begin()
      front.isResetting = true
      engine.disconnect()
      await pause(2000)
      front.isResetting = false
      end()
      await pause(8000)
    },
  },
]
