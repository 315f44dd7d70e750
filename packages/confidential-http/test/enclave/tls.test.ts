import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { describe, expect, jest, test } from '@jest/globals'
import { startHTTPSServer } from '@sluice/engine'
import { failureOf } from '@sluice/test-support/waiting.js'
import { buildSync } from 'esbuild'
import {
  ask,
  closing,
  directory,
  enclaveOf,
  external,
  raws,
  record,
  reply,
  server,
  textOf,
} from '../support/enclave.js'
import { selfSigned, startRawServer } from '../support/raw-server.js'

describe('TLS', () => {
  test.each([
    ['of an authority that was not named', {}, { customRootCaCertPem: '' }],
    ['for another name', { hosts: ['other.example'] }, {}],
  ])('refuses a certificate %s', async (_name, options, request) => {
    const other = await startHTTPSServer({ handler: record, ...options })
    closing.push(other.close)
    const asked = { url: other.url, customRootCaCertPem: other.ca, ...request }
    expect(await failureOf(ask(asked))).toMatchObject({
      name: 'EnclaveError',
      code: 'UPSTREAM_TLS',
      message: expect.stringMatching(/^the external server's TLS certificate does not verify/),
    })
    expect(external.received).toEqual([])
  })

  test('refuses the certificate of another authority than those given', async () => {
    const other = await startHTTPSServer({ handler: record })
    closing.push(other.close)
    const asked = { url: other.url, customRootCaCertPem: server.ca }
    expect(await failureOf(ask(asked))).toMatchObject({ code: 'UPSTREAM_TLS' })
    // Of several in one PEM, each counts.
    expect(await ask({ ...asked, customRootCaCertPem: `${server.ca}\n${other.ca}` })).toMatchObject(
      {
        statusCode: 200,
      },
    )
    // And they count for that request only.
    const enclave = enclaveOf()
    await ask({ url: other.url, customRootCaCertPem: other.ca }, { enclave })
    const next = { url: other.url, customRootCaCertPem: '' }
    expect(await failureOf(ask(next, { enclave }))).toMatchObject({ code: 'UPSTREAM_TLS' })
  })

  test('refuses a certificate that has expired', async () => {
    const then = Date.now() - 3 * 86_400_000
    const clock = jest.spyOn(Date, 'now').mockReturnValue(then)
    const expired = await startHTTPSServer({ handler: record })
    clock.mockRestore()
    closing.push(expired.close)
    expect(
      await failureOf(ask({ url: expired.url, customRootCaCertPem: expired.ca })),
    ).toMatchObject({ code: 'UPSTREAM_TLS', message: expect.stringContaining('CERT_HAS_EXPIRED') })
  })

  test('takes a certificate that signed itself where that very one is given, and only there', async () => {
    const own = selfSigned('localhost')
    const speak = (socket: TLSSocket): void => void socket.end(reply('200 OK\r\nx: 1', 'ok'))
    const { url } = raws(await startRawServer(speak, own))
    expect(textOf(await ask({ url, customRootCaCertPem: own.cert }))).toBe('ok')
    for (const customRootCaCertPem of ['', selfSigned('localhost').cert, server.ca])
      expect(await failureOf(ask({ url, customRootCaCertPem }))).toMatchObject({
        code: 'UPSTREAM_TLS',
      })
  })

  test('is what the server must speak', async () => {
    const plain = createHttpServer((_request, response) => response.end('plain'))
    await new Promise<void>(resolve => {
      plain.listen(0, '127.0.0.1', resolve)
    })
    closing.push(() => plain.close())
    const { port } = plain.address() as AddressInfo
    expect(await failureOf(ask({ url: `https://127.0.0.1:${port}/` }))).toMatchObject({
      code: 'UPSTREAM_TLS',
    })
    const network = { loopback: true, http: true }
    const enclave = enclaveOf({ network })
    expect(textOf(await ask({ url: `http://127.0.0.1:${port}/` }, { enclave }))).toBe('plain')
  })

  test('takes no PEM that holds no certificate', async () => {
    const customRootCaCertPem = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
    expect(await failureOf(ask({ customRootCaCertPem }))).toMatchObject({
      code: 'VALIDATION',
      message: "request.customRootCaCertPem must hold certificates: number 1 can't be read as one",
    })
    expect(external.received).toEqual([])
  })

  test('is verified whatever the environment says', async () => {
    const bundle = join(directory, 'enclave.cjs')
    buildSync({
      entryPoints: [join(__dirname, '../../enclave/upstream.ts')],
      bundle: true,
      platform: 'node',
      format: 'cjs',
      outfile: bundle,
    })
    const script = join(directory, 'ask.cjs')
    writeFileSync(
      script,
      `const { askUpstream } = require('./enclave.cjs')
       const call = {
         method: 'GET', url: process.argv[2], headers: new Headers(), multiHeaders: new Map(),
         connection: {}, signal: new AbortController().signal,
       }
       askUpstream(call).then(() => console.log('answered'), error => console.log(error.code))`,
    )
    // This process serves, so it must not stand still.
    const said = await new Promise<string>((resolve, reject) => {
      const env = { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' }
      execFile(process.execPath, [script, server.url], { env }, (error, stdout) =>
        error ? reject(error) : resolve(stdout.trim()),
      )
    })
    expect(said).toBe('UPSTREAM_TLS')
    expect(external.received).toEqual([])
  })
})
