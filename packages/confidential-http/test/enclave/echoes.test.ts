import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { functions } from '@sluice/source/plugins/confidential-http/templates/template.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { AES_KEY_SECRET } from 'sluice/plugins/confidential-http'
import { confidentialPreset } from 'sluice/presets/confidential'
import { createEnclave, type Enclave } from '../../enclave/enclave.js'
import {
  ConfidentialHTTPClient,
  decryptResponse,
  type HTTPRequest,
  type HTTPResponse,
} from '../../index.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'
import { type RawServer, startRawServer } from '../support/raw-server.js'

const OWNER = 'ab'.repeat(20)
const SECRET = 'sk-live-x9q7-abcdefgh"/+?'
const DIGITS = 'c0ffee00'.repeat(8)
const BASIC = Buffer.from(`user:${SECRET}`).toString('base64')

let directory: string
let vault: Vault
let server: RawServer
let speak: (socket: TLSSocket) => void
let received = ''

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-echoes-'))
  vault = await createVault(join(directory, 'vault'), { owner: OWNER, holders: 1 })
  await vault.put({ key: 'apiKey' }, SECRET, { policy: 'anywhere' })
  await vault.put({ key: 'pin' }, '42', { policy: 'anywhere' })
  await vault.put({ key: 'hex' }, 'C0ffee', { policy: 'anywhere' })
  await vault.put({ key: AES_KEY_SECRET }, DIGITS, { policy: 'anywhere' })
  server = await startRawServer(function answer(socket, first) {
    received = first
    socket.on('data', more => {
      received += String(more)
    })
    speak(socket)
  })
})
afterAll(async () => {
  await server.close()
  rmSync(directory, { recursive: true, force: true })
})
afterEach(() => {
  received = ''
})

const enclaveOf = (limits = {}): Enclave =>
  createEnclave({ plugins: confidentialPreset({ vault, network: { loopback: true }, limits }) })

async function ask(
  said: string | ((socket: TLSSocket) => void),
  request: Partial<HTTPRequest> = {},
  secrets: readonly string[] = ['apiKey'],
  enclave = enclaveOf(),
): Promise<{ readonly response: HTTPResponse; readonly lines: readonly string[] }> {
  speak = typeof said === 'string' ? socket => socket.end(said) : said
  const lines: string[] = []
  const write = (message: string, facts?: object): void =>
    void lines.push(`${message} ${JSON.stringify(facts)}`)
  enclave.listen({ debug: write, info: write, warn: write, error: write })
  const { url, ca: customRootCaCertPem } = server
  const input = {
    request: { url, method: 'GET', customRootCaCertPem, ...request },
    vaultDonSecrets: secrets.map(key => ({ key })),
  }
  const response = await enclave.send(input, { owner: OWNER })
  for (const digits of [SECRET, BASIC, DIGITS]) expect(lines.join('\n')).not.toContain(digits)
  return { response, lines }
}

const reply = (head: string, body = 'ok'): string =>
  `HTTP/1.1 200 ${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const valuesOf = ({ multiHeaders }: HTTPResponse, name: string): readonly string[] | undefined =>
  multiHeaders[name]?.values

describe('a secret that the API repeats', () => {
  const spelt = [
    ['as it is', SECRET],
    ['in base64, as Basic has it', `Basic ${BASIC}`],
    ['in a cookie', `k=${encodeURIComponent(SECRET)}; Path=/`],
    ['in JSON', JSON.stringify({ key: SECRET })],
    ['as the template function js spells it', functions.get('js')?.('', [`<${SECRET}>`]) ?? ''],
    [
      'as the template function urlquery spells it',
      functions.get('urlquery')?.('', [SECRET]) ?? '',
    ],
    ['in hexadecimal digits', Buffer.from(SECRET).toString('hex')],
  ] as const

  test.each(spelt)(
    'in a header, %s, is redacted, with the body encrypted or not',
    async (...row) => {
      const head = `OK\r\nset-cookie: a=1\r\nset-cookie: ${row[1]}\r\nx-echo: ${row[1]}\r\nx: 7`
      for (const encryptOutput of [true, false]) {
        const secrets = ['apiKey', AES_KEY_SECRET]
        const { response, lines } = await ask(reply(head), { encryptOutput }, secrets)
        expect(valuesOf(response, 'X-Echo')).toEqual(['[redacted]'])
        expect(valuesOf(response, 'Set-Cookie')).toEqual(['a=1', '[redacted]'])
        expect(valuesOf(response, 'X')).toEqual(['7'])
        const body = encryptOutput ? await decryptResponse(response, DIGITS) : response.body
        expect(Buffer.from(body).toString()).toBe('ok')
        expect(lines.join('\n')).toContain('headers of the answer repeat a secret')
      }
    },
  )

  test('in the name of a header, takes the header with it', async () => {
    const { response } = await ask(
      reply('OK\r\nX-FEED-C0FFEE: 1\r\nx-c0ffee: 2\r\nx-fine: 3'),
      {},
      ['hex'],
    )
    expect(Object.keys(response.multiHeaders).sort()).toEqual(['Content-Length', 'X-Fine'])
  })

  test('in the status text, in trailers or in early hints is not passed on', async () => {
    const early = `HTTP/1.1 103 ${BASIC}\r\nlink: ${SECRET}\r\n\r\n`
    const head = `HTTP/1.1 200 ${SECRET}\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n`
    const { response } = await ask(`${early}${head}2\r\nok\r\n0\r\nx: ${SECRET}\r\n\r\n`)
    expect(response.statusCode).toBe(200)
    expect(JSON.stringify(response)).not.toContain('sk-live')
    expect(Object.keys(response.multiHeaders)).toEqual(['Transfer-Encoding', 'Trailer'])
  })

  test('in part shows nobody who guesses that it is a part', async () => {
    const guesses = [SECRET.slice(0, -1), SECRET.slice(1), SECRET.slice(3, 19)]
    const { response } = await ask(reply(`OK\r\n${guesses.map(each => `x: ${each}`).join('\r\n')}`))
    expect(valuesOf(response, 'X')).toEqual(guesses)
  })

  test('in the body comes back where no encryption is asked for', async () => {
    const { response } = await ask(reply('OK', SECRET))
    expect(Buffer.from(response.body).toString()).toBe(SECRET)
  })

  test('that is the AES key is redacted as well', async () => {
    const { response } = await ask(reply(`OK\r\nx: ${DIGITS}`), {}, [AES_KEY_SECRET])
    expect(valuesOf(response, 'X')).toEqual(['[redacted]'])
  })

  test('and is short is redacted where it stands alone', async () => {
    const { response } = await ask(reply('OK\r\nx: pin 42\r\ny: 1423'), {}, ['pin'])
    expect([valuesOf(response, 'X'), valuesOf(response, 'Y')]).toEqual([['[redacted]'], ['1423']])
  })
})

test('an AES key that is listed without encryptOutput is warned of', async () => {
  const { response, lines } = await ask(reply('OK'), {}, [AES_KEY_SECRET])
  expect(Buffer.from(response.body).toString()).toBe('ok')
  expect(lines.join('\n')).toContain(`${AES_KEY_SECRET} is listed, but encryptOutput is not true`)
})

describe('what goes out', () => {
  /** What came of a request, but for the lines that the enclave adds by itself. */
  const sentBytes = (): number => {
    const [head = ''] = received.split('\r\n\r\n')
    const [, body = '0'] = /^content-length: (\d+)/im.exec(head) ?? []
    const own = /^(GET|POST|host|content-length|accept-encoding|connection)\b/i
    const lines = head.split('\r\n').filter(line => !own.test(line))
    return Buffer.byteLength(lines.map(line => `${line}\r\n`).join('')) + Number(body)
  }
  const values = { euro: '€'.repeat(1000) }
  const whenReceived = (socket: TLSSocket): void => {
    function answerAll(): void {
      const [, length = '0'] = /^content-length: (\d+)/im.exec(received) ?? []
      const [head = '', body = ''] = received.split('\r\n\r\n')
      if (head !== received && Buffer.byteLength(body) >= Number(length)) socket.end(reply('OK'))
    }
    socket.on('data', answerAll)
    answerAll()
  }

  test.each([
    ['a body', { bodyString: '{{.euro}}'.repeat(30) }],
    ['a header', { multiHeaders: { X: { values: ['{{.euro}}'.repeat(5)] } } }],
    [
      'a body of bytes and a header',
      { bodyBytes: new Uint8Array(2000), multiHeaders: { X: { values: ['{{.euro}}{{.euro}}'] } } },
    ],
    [
      'headers of one long name',
      {
        multiHeaders: {
          ['N'.repeat(900)]: { values: [...Array(9).fill(''), '{{.euro}}{{.euro}}'] },
        },
      },
    ],
    ['bodies that fill too much before they are complete', { bodyString: '{{.euro}}'.repeat(390) }],
  ] as const)('of %s is counted in bytes of UTF-8', async (_name, request) => {
    const asked = {
      method: 'POST',
      templatePublicValues: values,
      ...request,
    } as Partial<HTTPRequest>
    const wide = enclaveOf({ maxRequestBytes: 2_000_000 })
    await ask(whenReceived, asked, [], wide)
    const size = sentBytes() + server.url.length
    received = ''
    const exact = enclaveOf({ maxRequestBytes: size })
    await ask(whenReceived, asked, [], exact)
    expect(sentBytes() + server.url.length).toBe(size)
    received = ''
    const failed = ask(whenReceived, asked, [], enclaveOf({ maxRequestBytes: size - 1 }))
    expect(await failureOf(failed)).toMatchObject({ name: 'EnclaveError', code: 'LIMIT' })
    expect(received).toBe('')
  })
})

describe('an answer that is none is the fault of the external server', () => {
  test.each([
    ['five thousand equal headers', `OK${'\r\nx: 1'.repeat(5000)}`],
    [
      'five thousand headers',
      `OK${Array.from({ length: 5000 }, (_, at) => `\r\nx${at}: 1`).join('')}`,
    ],
    ['a character in a header that none can hold', 'OK\r\nx: a\0b'],
    ['a long chunk extension', `OK\r\ntransfer-encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}`],
    [
      'trailers without end',
      `OK\r\ntransfer-encoding: chunked\r\n\r\n0${'\r\nx: yyyyyyyyyyyy'.repeat(9000)}`,
    ],
    ['a status text without end', 'x'.repeat(70_000)],
  ])('where it has %s', async (_name, head) => {
    expect(await failureOf(ask(`HTTP/1.1 200 ${head}\r\n\r\n`))).toMatchObject({
      name: 'EnclaveError',
      code: 'UPSTREAM_ANSWER',
    })
  })

  test.each(['000 x', '099 x', '101 x', '1000 x', 'abc x', '-1 x', ''])(
    'where its status is %j',
    async status => {
      expect(await failureOf(ask(`HTTP/1.1 ${status}\r\n\r\n`))).toMatchObject({
        code: 'UPSTREAM_ANSWER',
      })
    },
  )

  test('where announcements come without end', async () => {
    const flood = ask(socket => socket.write('HTTP/1.1 103 x\r\nx: y\r\n\r\n'.repeat(101)))
    expect(await failureOf(flood)).toMatchObject({
      code: 'UPSTREAM_ANSWER',
      message: expect.stringContaining('announced its answer too often'),
    })
  })

  test('and as many headers as the enclave takes are read by the client', () => {
    const multiHeaders = { X: { values: Array(2000).fill('1') } }
    const answer = { statusCode: 200, body: new Uint8Array(), multiHeaders }
    const runtime = { callCapability: () => ({ result: () => answer }) }
    const input = { request: { url: server.url, method: 'GET' } }
    const response = new ConfidentialHTTPClient().sendRequest(runtime as never, input).result()
    expect(response.multiHeaders.X?.values).toHaveLength(2000)
  })
})
