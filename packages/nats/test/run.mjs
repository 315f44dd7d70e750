// Runs the tests that need a server of NATS: npm run test:nats, or npm run test:nats -- FILE … for some of them.
import { runJest } from '@sluice/test-support/jest/run.mjs'
import { findServer, noServer } from '@sluice/test-support/nats/find-server.mjs'

const server = findServer()
if (server === undefined) {
  console.log(`test:nats ${noServer}`)
  process.exitCode = 69
} else {
  const given = process.argv.slice(2)
  const files = given.length > 0 ? given : ['\\.nats\\.test\\.ts$']
  process.exitCode = await runJest(files, { NATS_SERVER: server, TEST_NATS: '1' })
}
