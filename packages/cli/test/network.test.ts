import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { root } from '@sluice/test-support/sources.js'
import {
  pems,
  type RealProxy,
  startProxy,
  startQuickEngine,
  startTLSFront,
  type TestServer,
} from '@sluice/test-support/wire/egress.js'
import { runHere } from './support/cli.js'

const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const pem = (name: string): string => join(root, 'test', 'vectors', 'tls', name)
const password = 'open-sesame'

let engine: DataEngine
let front: TestServer
let proxy: RealProxy
beforeAll(async () => {
  engine = await startQuickEngine(feedID)
  const port = Number(new URL(engine.endpoint).port)
  front = await startTLSFront(port, { ca: pems.ca, requestCert: true, rejectUnauthorized: true })
  proxy = await startProxy({ username: 'someone', password })
})
afterAll(async () => {
  await proxy.close()
  await front.close()
  await engine.close()
})

const env = (): Record<string, string> => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: `https://localhost:${front.port}`,
  WS_URL: `wss://localhost:${front.port}`,
})
const certificates = ['--ca', pem('ca.pem'), '--cert', pem('client.pem')]

test('a command goes through the proxy of the environment, with certificates from files', async () => {
  const args = ['--proxy', 'env', ...certificates, '--key', pem('client-encrypted.key')]
  const { out, err, code } = await startCommand(['latest', feedID, '--json', ...args], {
    env: {
      ...env(),
      HTTPS_PROXY: proxy.url.replace('//', `//someone:${password}@`),
      TLS_PASSPHRASE: 'open-sesame',
    },
  }).ended
  expect(err).toBe('')
  expect(JSON.parse(out)).toMatchObject({ feedID })
  expect(code).toBe(0)
  expect(proxy.asked).toEqual([`localhost:${front.port}`])
})

test.each([
  [['--proxy', `http://someone:${password}@proxy`], /^sluice: --proxy must have no user name/],
  [['--proxy', 'proxy'], /^sluice: --proxy must be a URL/],
  [['--ca', 'absent.pem'], /^sluice: --ca can’t be read from absent\.pem: ENOENT, .*\n$/],
  [certificates, /^sluice: --cert and --key must be given together\n$/],
])('%#: wrong arguments end it with 2', async (args, message) => {
  const { err, code } = await runHere(['feeds', ...args], { env: env() })
  expect(err).toMatch(message)
  expect(err).not.toContain(password)
  expect(code).toBe(2)
})

test('a proxy that refuses ends it with 4', async () => {
  const { err, code } = await runHere(['feeds', '--proxy', proxy.url], { env: env() })
  expect(err).toMatch(/^sluice: the proxy .* answered 407/)
  expect(code).toBe(4)
})
