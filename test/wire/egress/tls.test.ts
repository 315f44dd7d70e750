import { execFile } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { type Config, createClient, type TLSOptions } from '../../../index.js'
import { built } from '../../support/files.js'
import { failureOf, until } from '../../support/waiting.js'
import {
  pems,
  startProxy,
  startQuickEngine,
  startTLSFront,
  type TestServer,
} from '../../support/wire/egress.js'

const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const { ca, otherCa, clientCert: cert, clientKey: key, clientEncryptedKey } = pems
const wantsCertificate = { ca, requestCert: true, rejectUnauthorized: true } as const

let engine: DataEngine
let plain: TestServer
let mutual: TestServer
let mutual12: TestServer
const closing: (() => Promise<void>)[] = []

beforeAll(async () => {
  engine = await startQuickEngine(feedID)
  const port = Number(new URL(engine.endpoint).port)
  plain = await startTLSFront(port)
  mutual = await startTLSFront(port, wantsCertificate)
  mutual12 = await startTLSFront(port, { ...wantsCertificate, maxVersion: 'TLSv1.2' })
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})
afterAll(async () => {
  await Promise.all([plain, mutual, mutual12].map(front => front.close()))
  await engine.close()
})

function clientOf(front: TestServer, tls: TLSOptions | undefined, more: Partial<Config> = {}) {
  const client = createClient({
    apiKey: engine.apiKey,
    userSecret: engine.userSecret,
    endpoint: `https://localhost:${front.port}`,
    wsEndpoint: `wss://localhost:${front.port}`,
    ...(tls === undefined ? {} : { tls }),
    retryAttempts: 0,
    ...more,
  })
  closing.push(() => client.close())
  return client
}

async function expectToWork(client: ReturnType<typeof clientOf>): Promise<void> {
  expect((await client.getLatestReport(feedID)).feedID).toBe(feedID)
  const stream = client.createStream(feedID)
  let reports = 0
  stream.on('report', () => reports++)
  await stream.connect()
  await until(() => reports > 0)
}

/** The failures of a request and of a stream. */
async function failuresOf(client: ReturnType<typeof clientOf>) {
  const request = await failureOf(client.listFeeds())
  const stream = client.createStream(feedID, { maxReconnectAttempts: 0 })
  stream.on('error', () => undefined)
  return [request, await failureOf(stream.connect())]
}

test('certificates are verified, whatever the environment says of that', async () => {
  const program = `
    import { createClient } from ${JSON.stringify(pathToFileURL(built('esm/index.js')))}
    const client = createClient(JSON.parse(process.env.CONFIG))
    const stream = client.createStream('${feedID}', { maxReconnectAttempts: 0 })
    for (const { reason } of await Promise.allSettled([client.listFeeds(), stream.connect()]))
      console.log(reason?.message ?? 'it was trusted')
    await client.close()`
  const config = {
    ...{ apiKey: engine.apiKey, userSecret: engine.userSecret, retryAttempts: 0 },
    endpoint: `https://localhost:${plain.port}`,
    wsEndpoint: `wss://localhost:${plain.port}`,
    tls: { ca: otherCa },
  }
  const env = { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0', CONFIG: JSON.stringify(config) }
  const args = ['--no-warnings', '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  expect(stdout.match(/tls\.ca/g)).toHaveLength(2)
})

test('without undici, the first connection of a stream fails, and says which package is missing', async () => {
  const hooks = `
    export const resolve = (name, context, next) => {
      if (name === 'undici') throw new Error('there is no undici')
      return next(name, context)
    }`
  const program = `
    import { register } from 'node:module'
    register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)})
    const { createClient } = await import(${JSON.stringify(pathToFileURL(built('esm/index.js')))})
    const client = createClient(JSON.parse(process.env.CONFIG))
    const stream = client.createStream('${feedID}', { maxReconnectAttempts: 0 })
    stream.on('error', () => {})
    console.log(await stream.connect().then(() => 'connected', error => error.message))
    await client.close()`
  const config = {
    ...{ apiKey: engine.apiKey, userSecret: engine.userSecret },
    endpoint: `https://localhost:${plain.port}`,
    wsEndpoint: `wss://localhost:${plain.port}`,
    tls: { ca },
  }
  const env = { ...process.env, CONFIG: JSON.stringify(config) }
  const args = ['--no-warnings', '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  expect(stdout).toMatch(/need the package undici: npm install undici@7/)
})

describe('an authority of your own', () => {
  test.each([
    ['as text', ca],
    ['as bytes', Buffer.from(ca)],
    ['in a list', [otherCa, Buffer.from(ca)]],
    ['in a bundle', `${otherCa}\n${ca}`],
  ])('is trusted: %s', async (_name, given) => {
    await expectToWork(clientOf(plain, { ca: given }))
  })

  test.each([
    ['none', undefined],
    ['another', { ca: otherCa }],
  ])('%s: the error says which option is missing', async (_name, tls) => {
    for (const failure of await failuresOf(clientOf(plain, tls)))
      expect(failure.message).toMatch(
        /(unable to verify the first certificate|self-signed certificate|unable to get local issuer certificate).*: give the certificate of the authority that signed its own as tls\.ca$/,
      )
  })

  test('the name of the certificate counts, and servername says which', async () => {
    const byAddress = { endpoint: `https://127.0.0.2:${plain.port}` }
    const wrongHost = clientOf(plain, { ca, servername: 'api.example' })
    for (const failure of await failuresOf(wrongHost))
      expect(failure.message).toMatch(/api\.example\. is not in the cert's altnames/)
    await expect(
      clientOf(plain, { ca, servername: 'localhost' }, byAddress).listFeeds(),
    ).rejects.toMatchObject({ code: 'API_NETWORK' })
    await expectToWork(
      clientOf(
        plain,
        { ca, servername: 'localhost' },
        {
          endpoint: `https://127.0.0.1:${plain.port}`,
        },
      ),
    )
  })
})

describe('a client certificate that is required', () => {
  test.each([
    ['is shown', { ca, cert, key }],
    ['is shown, its key as bytes', { ca, cert: Buffer.from(cert), key: Buffer.from(key) }],
    [
      'is shown, its key encrypted',
      { ca, cert, key: clientEncryptedKey, passphrase: 'open-sesame' },
    ],
  ])('%s', async (_name, tls) => {
    await expectToWork(clientOf(mutual, tls))
  })

  test.each(['1.3', '1.2'])('is missing: the error says so, with TLS %s', async version => {
    const front = version === '1.3' ? mutual : mutual12
    for (const failure of await failuresOf(clientOf(front, { ca })))
      expect(failure.message).toMatch(/client certificate: give tls\.cert and tls\.key/)
  })

  test('is shown to the service, through a proxy that sees none of it', async () => {
    const proxy = await startProxy({ isSecure: true })
    closing.push(proxy.close)
    await expectToWork(clientOf(mutual, { ca, cert, key }, { proxy: proxy.url }))
    expect(proxy.asked.length).toBeGreaterThan(1)
  })
})

describe('what OpenSSL refuses is a ValidationError', () => {
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  test.each([
    [
      'a key of another certificate',
      { cert, key: pems.serverKey },
      'tls.key must be the key of tls.cert',
    ],
    ['no passphrase', { cert, key: clientEncryptedKey }, 'tls.passphrase must decrypt tls.key'],
    [
      'a wrong passphrase',
      { cert, key: clientEncryptedKey, passphrase: 'x' },
      'tls.passphrase must decrypt tls.key',
    ],
    [
      'a broken authority',
      { ca: [ca, broken] },
      expect.stringMatching(/^tls\.ca\[1\] can't be read: /),
    ],
    ['a broken certificate', { cert: broken, key }, expect.stringMatching(/^tls can't be read: /)],
  ])('%s', async (_name, tls, message) => {
    for (const failure of await failuresOf(clientOf(plain, tls)))
      expect(failure).toMatchObject({ name: 'ValidationError', message })
  })
})
