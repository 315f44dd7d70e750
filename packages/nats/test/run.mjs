// Runs the tests that need a server of NATS: npm run test:nats, or npm run test:nats -- FILE … for some of them.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findServer, noServer } from '@sluice/test-support/nats/find-server.mjs'

const server = findServer()
if (server === undefined) {
  console.log(`test:nats ${noServer}`)
  process.exitCode = process.env.CI === undefined ? 0 : 69
} else {
  const jest = fileURLToPath(new URL('../../../node_modules/jest/bin/jest.js', import.meta.url))
  const given = process.argv.slice(2)
  const files = given.length > 0 ? given : ['\\.nats\\.test\\.ts$']
  const child = spawn(process.execPath, ['--max-semi-space-size=64', jest, ...files], {
    env: { ...process.env, NATS_SERVER: server, TEST_NATS: '1' },
    stdio: 'inherit',
  })
  child.on('close', code => {
    process.exitCode = code ?? 1
  })
}
