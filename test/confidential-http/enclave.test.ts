import { execFile } from 'node:child_process'
import { createHash, createHmac } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { inspect } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { buildSync } from 'esbuild'
import {
  type Caller,
  createEnclave,
  type Enclave,
} from '../../confidential-http/enclave/enclave.js'
import { decryptResponse } from '../../confidential-http/response/decrypt-response.js'
import type {
  ConfidentialHTTPRequestJson,
  HTTPRequest,
  HTTPResponse,
} from '../../confidential-http/types.js'
import { encrypt, ownerLabel } from '../../crypto/tdh2/index.js'
import { hmacAuth } from '../../index.js'
import { createVault, type HTTPSServer, startHTTPSServer, type Vault } from '../../local/index.js'
import type { ConfidentialCall, EnclavePlugin } from '../../plugins/confidential-http/call.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { AES_KEY_SECRET } from '../../plugins/confidential-http/response-encryption.js'
import { type ConfidentialPresetOptions, confidentialPreset } from '../../presets/confidential.js'
import {
  type RawServer,
  selfSigned,
  startRawServer,
} from '../support/confidential-http/raw-server.js'
import { failureOf } from '../support/waiting.js'

const OWNER = '00112233445566778899aabbccddeeff00112233'
const DIGITS = 'c0ffee00'.repeat(8)
const SECRETS = {
  apiKey: 'sk-live-4242',
  quoted: 'sk-"live"\\4242',
  braces: '{{.apiKey}}-4242',
  line: 'sk-live\r\nX-Injected: 4242',
  [AES_KEY_SECRET]: DIGITS,
} as const
/** What nobody outside may see, in whatever context. */
const FORBIDDEN = ['sk-live', 'sk-"live', 'sk-\\"live', '4242', DIGITS]

interface Received {
  readonly method: string | undefined
  readonly url: string | undefined
  /** Name and value of each line, in order. */
  readonly lines: readonly (readonly [string, string])[]
  readonly body: Buffer
  readonly port: number | undefined
}

let directory: string
let vault: Vault
let server: HTTPSServer
let received: Received[] = []
let answer: (response: ServerResponse, request: Received) => void
const closing: (() => unknown)[] = []

async function record(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { rawHeaders, method, url, socket } = request
  const lines = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] as string] as const] : [],
  )
  const one = { method, url, lines, body: Buffer.concat(chunks), port: socket.remotePort }
  received.push(one)
  answer(response, one)
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-enclave-'))
  // One node, because X25519 is slow in here; how nodes are asked is shown elsewhere.
  vault = await createVault(join(directory, 'vault'), { owner: OWNER, nodes: 1 })
  for (const [key, value] of Object.entries(SECRETS)) await vault.put({ key }, value)
  server = await startHTTPSServer({ handler: record })
})
afterAll(async () => {
  await server.close()
  rmSync(directory, { recursive: true, force: true })
})
afterEach(async () => {
  received = []
  for (const close of closing.splice(0)) await close()
})

function enclaveOf(
  options: Partial<ConfidentialPresetOptions> = {},
  before: EnclavePlugin[] = [],
): Enclave {
  const network = { loopback: true }
  const plugins = [...before, ...confidentialPreset({ vault, network, ...options })]
  return createEnclave({ plugins })
}

interface Asking {
  readonly enclave?: Enclave
  readonly secrets?: readonly string[]
  readonly input?: ConfidentialHTTPRequestJson
  readonly caller?: Partial<Caller>
}

/**
 * Every request of these tests is made here: what fails must be an error of ours, and neither it nor a line of the log may
 * hold anything of a secret.
 */
async function ask(request: Partial<HTTPRequest>, asking: Asking = {}): Promise<HTTPResponse> {
  const { enclave = enclaveOf(), secrets = [], caller } = asking
  const lines: string[] = []
  const write = (message: string, facts?: object): void =>
    void lines.push(`${message} ${inspect(facts, { depth: 9 })}`)
  enclave.listen({ debug: write, info: write, warn: write, error: write, connection: write })
  const input = asking.input ?? {
    request: {
      url: server.url,
      method: 'GET',
      ...(request.url === undefined || request.url.startsWith(server.url)
        ? { customRootCaCertPem: server.ca }
        : {}),
      ...request,
    },
    vaultDonSecrets: secrets.map(key => ({ key, namespace: 'main' })),
  }
  try {
    return await enclave.send(input, { owner: OWNER, ...caller })
  } catch (error) {
    const { name, message, stack } = error as Error
    const everything = [
      inspect(error, { depth: 20, showHidden: true }),
      JSON.stringify(error),
      name,
      message,
      stack,
    ].join('\n')
    for (const word of FORBIDDEN) expect(everything).not.toContain(word)
    throw error
  } finally {
    for (const word of FORBIDDEN) expect(lines.join('\n')).not.toContain(word)
  }
}

const textOf = ({ body }: HTTPResponse): string => Buffer.from(body).toString()
const valuesOf = (response: HTTPResponse, name: string): readonly string[] | undefined =>
  response.multiHeaders[name]?.values
const lineOf = (name: string): readonly string[] =>
  (received[0]?.lines ?? []).filter(([each]) => each === name).map(([, value]) => value)

/** Says something raw on each connection, and is asked. */
async function askRaw(
  speak: (socket: TLSSocket, heard: string) => void,
  request: Partial<HTTPRequest> = {},
  asking: Asking = {},
): Promise<HTTPResponse> {
  const raw = await raws(await startRawServer(speak))
  return ask({ url: raw.url, customRootCaCertPem: raw.ca, ...request }, asking)
}
function raws(raw: RawServer): RawServer {
  closing.push(raw.close)
  return raw
}

const reply = (head: string, body = ''): string => `HTTP/1.1 ${head}\r\n\r\n${body}`

beforeAll(() => {
  answer = response => response.end('ok')
})
afterEach(() => {
  answer = response => response.end('ok')
})

describe('a confidential request', () => {
  test('arrives as it was written, lines of a name together and byte by byte', async () => {
    answer = response => response.writeHead(201, { 'x-one': '1' }).end('made')
    const response = await ask(
      {
        url: `${server.url}/a%20b?q=%7B%7B.apiKey%7D%7D&x={.apiKey}`,
        method: 'put',
        multiHeaders: {
          'X-Many': { values: ['b', 'a', '', 'b'] },
          Cookie: { values: ['one=1', 'two={{.apiKey}}'] },
          'x-many': { values: ['c'] },
          Authorization: { values: ['Bearer {{.apiKey}}'] },
          constructor: { values: ['x'] },
          'X-Unicode': { values: ['ключ 🔑 {{.name}}'] },
        },
        templatePublicValues: { name: 'é' },
        bodyString: '{"k":"{{.apiKey}}","n":"{{ .name }}"}',
      },
      { secrets: ['apiKey'] },
    )
    expect(response.statusCode).toBe(201)
    expect(textOf(response)).toBe('made')
    expect(received).toHaveLength(1)
    const [{ method, url, lines, body } = {} as Received] = received
    expect([method, url]).toEqual(['PUT', '/a%20b?q=%7B%7B.apiKey%7D%7D&x={.apiKey}'])
    expect(body.toString()).toBe('{"k":"sk-live-4242","n":"é"}')
    expect(lines.map(([name, value]) => [name, Buffer.from(value, 'latin1').toString()])).toEqual([
      ['host', `localhost:${server.port}`],
      ['X-Many', 'b'],
      ['X-Many', 'a'],
      ['X-Many', ''],
      ['X-Many', 'b'],
      ['X-Many', 'c'],
      ['Cookie', 'one=1; two=sk-live-4242'],
      ['Authorization', 'Bearer sk-live-4242'],
      ['constructor', 'x'],
      ['X-Unicode', 'ключ 🔑 é'],
      ['content-length', '29'],
      ['accept-encoding', 'gzip'],
      ['Connection', 'close'],
    ])
  })

  test('sends bytes as they are, without filling anything in', async () => {
    const bytes = Buffer.concat([Buffer.from('{{.apiKey}}'), Buffer.from([0, 255, 10, 13])])
    await ask({ method: 'POST', bodyBytes: Uint8Array.from(bytes) }, { secrets: ['apiKey'] })
    expect(received[0]?.body).toEqual(bytes)
  })

  test.each([
    ['GET', undefined, []],
    ['HEAD', undefined, []],
    ['DELETE', undefined, []],
    ['OPTIONS', undefined, []],
    ['POST', undefined, ['0']],
    ['PUT', undefined, ['0']],
    ['PATCH', undefined, ['0']],
    ['PROPFIND', undefined, ['0']],
    ['POST', '', ['0']],
    ['GET', 'x', ['1']],
    ['DELETE', 'é', ['2']],
    ['patch', 'abc', ['3']],
  ])('%s with body %j has the content-length %j, and is not chunked', async (...row) => {
    const [method, bodyString, length] = row
    await ask({ method, ...(bodyString === undefined ? {} : { bodyString }) })
    expect(received[0]?.method).toBe(method.toUpperCase())
    expect(lineOf('content-length')).toEqual(length)
    expect(lineOf('Transfer-Encoding')).toEqual([])
    expect(received[0]?.body.toString()).toBe(bodyString ?? '')
  })

  test('has a connection of its own', async () => {
    const enclave = enclaveOf()
    await ask({}, { enclave })
    await ask({}, { enclave })
    expect(received[0]?.port).not.toBe(received[1]?.port)
    expect(lineOf('Connection')).toEqual(['close'])
  })

  test('fills with the public value first, then with the secret', async () => {
    await ask(
      {
        method: 'POST',
        bodyString: '{{.apiKey}} {{.quoted}}',
        templatePublicValues: { apiKey: 'P' },
      },
      { secrets: ['apiKey', 'quoted'] },
    )
    expect(received[0]?.body.toString()).toBe('P sk-"live"\\4242')
  })

  test('is filled in one pass', async () => {
    await ask({ method: 'POST', bodyString: '<{{.braces}}>' }, { secrets: ['braces', 'apiKey'] })
    expect(received[0]?.body.toString()).toBe('<{{.apiKey}}-4242>')
  })

  test.each([
    ['a name that nobody knows', '{{.unknown}}', 'request.bodyString: nothing is known for the'],
    ['a secret that is not listed', '{{.quoted}}', 'placeholder {{.quoted}}'],
    ['the AES key', `{{.${AES_KEY_SECRET}}}`, `placeholder {{.${AES_KEY_SECRET}}}`],
    ['all values at once', '{{.}}', 'request.bodyString: "{{.}}" is no placeholder'],
    ['a program', '{{printf "%s" .apiKey}}', 'is no placeholder'],
  ])('with %s in its template is refused, and not sent', async (_name, bodyString, message) => {
    const secrets = ['apiKey', AES_KEY_SECRET]
    const request = { method: 'POST', bodyString, encryptOutput: true }
    expect(await failureOf(ask(request, { secrets }))).toMatchObject({
      name: 'EnclaveError',
      code: 'TEMPLATE',
      message: expect.stringContaining(message),
    })
    expect(received).toEqual([])
  })

  test.each([
    ['its template', 'a\r\nX-Injected: 1', {}, []],
    ['a public value', '{{.p}}', { p: 'a\nX-Injected: 1' }, []],
    ['a secret', '{{.line}}', {}, ['line']],
    ['a public value with NUL', '{{.p}}', { p: '\0' }, []],
  ])('with a line break in a header from %s is refused, and not sent', async (...row) => {
    const [, value, templatePublicValues, secrets] = row
    const multiHeaders = { 'X-Key': { values: [value] } }
    const error = await failureOf(ask({ multiHeaders, templatePublicValues }, { secrets }))
    expect(error).toMatchObject({ code: 'TEMPLATE' })
    expect(error.message).toMatch(/^request\.multiHeaders\.X-Key\.values\[0\] must not hold CR, LF/)
    expect(error.message).not.toContain('Injected')
    expect(received).toEqual([])
  })

  test.each([
    ['a space in the URL', { url: 'https://localhost/ HTTP/1.1' }],
    ['a line break in the URL', { url: 'https://localhost/\r\nX-Injected: 1' }],
    ['a line break in a header name', { multiHeaders: { 'X\r\nY': { values: ['1'] } } }],
    ['a colon in a header name', { multiHeaders: { 'X: 1\nY': { values: ['1'] } } }],
    ['a line break in the method', { method: 'GET / HTTP/1.1\r\nX: 1' }],
    ['a space in the method', { method: 'GET /' }],
    ['a length of its own', { multiHeaders: { 'Content-Length': { values: ['0'] } } }],
    ['a transfer encoding', { multiHeaders: { 'transfer-encoding': { values: ['chunked'] } } }],
    ['another host', { multiHeaders: { HOST: { values: ['other'] } } }],
    ['a connection to keep', { multiHeaders: { Connection: { values: ['keep-alive'] } } }],
    ['a URL of a file', { url: 'file:///etc/hosts' }],
    ['a tunnel', { method: 'CONNECT' }],
  ])('with %s is refused', async (_name, request) => {
    expect(await failureOf(ask(request))).toMatchObject({ code: 'VALIDATION' })
    expect(received).toEqual([])
  })

  test('keeps a URL within its request line, whatever is in it', async () => {
    await ask({ url: `${server.url}/é<>"\`{|}\\^?ключ=🔑#part` })
    expect(received[0]?.url).toMatch(/^\/%C3%A9[\x21-\x7e]+$/)
    expect(received[0]?.url).not.toContain('#')
  })

  test('asks for an encoding unless the caller does, or wants a part, or no body', async () => {
    await ask({})
    expect(lineOf('accept-encoding')).toEqual(['gzip'])
    for (const request of [
      { multiHeaders: { Range: { values: ['bytes=0-1'] } } },
      { method: 'HEAD' },
    ]) {
      received = []
      await ask(request)
      expect(lineOf('accept-encoding')).toEqual([])
    }
    received = []
    const packed = gzipSync('packed')
    answer = response => response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
    const response = await ask({ multiHeaders: { 'Accept-Encoding': { values: ['gzip, br'] } } })
    expect(lineOf('Accept-Encoding')).toEqual(['gzip, br'])
    expect(Buffer.from(response.body)).toEqual(packed)
    expect(valuesOf(response, 'Content-Encoding')).toEqual(['gzip'])
  })
})

describe('the answer', () => {
  test('has every header line, under canonical names, and the body', async () => {
    answer = response => {
      response.writeHead(200, 'Fine', [
        ...['set-cookie', 'a=1', 'SET-COOKIE', 'b=2', 'x-rATE-limit', '7', 'eTag', '"x"'],
        ...['content-length', '2', 'set-cookie', 'a=1'],
      ])
      response.end('ok')
    }
    const response = await ask({})
    expect(valuesOf(response, 'Set-Cookie')).toEqual(['a=1', 'b=2', 'a=1'])
    expect(valuesOf(response, 'X-Rate-Limit')).toEqual(['7'])
    expect(valuesOf(response, 'Etag')).toEqual(['"x"'])
    expect(valuesOf(response, 'Content-Length')).toEqual(['2'])
    expect(Object.keys(response.multiHeaders)).toContain('Date')
  })

  test('has header values in UTF-8 where they are that, else byte by byte', async () => {
    const response = await askRaw(socket =>
      socket.end(
        Buffer.concat([
          Buffer.from('HTTP/1.1 200 OK\r\nx-utf: ключ 🔑\r\nx-latin: '),
          Buffer.from([0xe9]),
          Buffer.from('\r\n\r\n'),
        ]),
      ),
    )
    expect(valuesOf(response, 'X-Utf')).toEqual(['ключ 🔑'])
    expect(valuesOf(response, 'X-Latin')).toEqual(['é'])
  })

  test('keeps two thousand lines', async () => {
    const lines = Array.from({ length: 2000 }, (_, at) => `s:${at}\r\n`).join('')
    const response = await askRaw(socket => socket.end(`HTTP/1.1 200 OK\r\n${lines}\r\n`))
    expect(valuesOf(response, 'S')).toHaveLength(2000)
    expect(valuesOf(response, 'S')?.at(-1)).toBe('1999')
  })

  test('is no more than data, whatever its names are', async () => {
    const response = await askRaw(socket =>
      socket.end(reply('200 OK\r\n__proto__: x\r\nconstructor: y\r\ntoString: z')),
    )
    expect(Object.getPrototypeOf(response.multiHeaders)).toBe(Object.prototype)
    expect(valuesOf(response, 'Constructor')).toEqual(['y'])
    expect(Object.keys(response.multiHeaders)).toContain('__proto__')
  })

  test.each([200, 204, 205, 206, 300, 304, 400, 401, 404, 418, 429, 500, 503, 599])(
    'of status %i is an answer',
    async status => {
      answer = response => response.writeHead(status).end()
      expect(await ask({})).toMatchObject({ statusCode: status })
    },
  )

  test.each([301, 302, 303, 307, 308])(
    'of status %i is an error where it redirects',
    async status => {
      for (const location of [`${server.url}/other`, 'file:///etc/hosts', '/', '']) {
        answer = response => response.writeHead(status, { location }).end('x'.repeat(100_000))
        expect(await failureOf(ask({}))).toMatchObject({
          name: 'EnclaveError',
          code: 'UPSTREAM_ANSWER',
          message: `the external server answered ${status}: redirects are not followed; the request may have been carried out`,
        })
      }
      expect(received).toHaveLength(4)
      answer = response => response.writeHead(status).end('no location')
      expect(textOf(await ask({}))).toBe('no location')
    },
  )

  test('comes after others that announce it', async () => {
    const early = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n'
    const response = await askRaw(socket => socket.end(early + reply('200 OK\r\nx: 1', 'late')))
    expect(response.statusCode).toBe(200)
    expect(valuesOf(response, 'Link')).toBeUndefined()
    expect(textOf(response)).toBe('late')
  })

  test('is put together of its chunks', async () => {
    const body = '3\r\nabc\r\n1;x=y\r\nd\r\n0\r\ntrailer: t\r\n\r\n'
    const head = '200 OK\r\ntransfer-encoding: chunked'
    expect(textOf(await askRaw(socket => socket.end(reply(head, body))))).toBe('abcd')
    const slow = await askRaw(function drip(socket) {
      socket.write(reply(head))
      const parts = ['1\r\na\r\n', '1\r\nb\r\n', '0\r\n\r\n']
      const timer = setInterval(() => {
        const part = parts.shift()
        if (part === undefined) clearInterval(timer)
        else socket.write(part)
      }, 5)
    })
    expect(textOf(slow)).toBe('ab')
  })

  test('is unpacked, and says nothing of having been packed', async () => {
    const packed = gzipSync('text '.repeat(1000))
    answer = response =>
      response
        .writeHead(200, { 'content-encoding': 'GZIP', 'content-length': packed.length, etag: 'x' })
        .end(packed)
    const response = await ask({})
    expect(textOf(response)).toBe('text '.repeat(1000))
    expect(valuesOf(response, 'Content-Encoding')).toBeUndefined()
    expect(valuesOf(response, 'Content-Length')).toBeUndefined()
    expect(valuesOf(response, 'Etag')).toEqual(['x'])
  })

  test.each([
    ['no gzip', Buffer.from('plain'), 'UPSTREAM_ANSWER'],
    ['half of it', gzipSync('text'.repeat(100)).subarray(0, 20), 'UPSTREAM_ANSWER'],
  ])('that is said to be packed and is %s, is an error', async (_name, body, code) => {
    answer = response => response.writeHead(200, { 'content-encoding': 'gzip' }).end(body)
    expect(await failureOf(ask({}))).toMatchObject({ name: 'EnclaveError', code })
  })

  test.each(['GET', 'HEAD'])('to %s may be packed and empty', async method => {
    answer = response =>
      response.writeHead(method === 'GET' ? 204 : 200, { 'content-encoding': 'gzip' }).end()
    const response = await ask({ method })
    expect(response.body).toHaveLength(0)
  })

  test('to HEAD has the headers of the body it would have', async () => {
    answer = response =>
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': 7 }).end()
    const response = await ask({ method: 'HEAD' })
    expect(response.body).toHaveLength(0)
    expect(valuesOf(response, 'Content-Length')).toEqual(['7'])
    expect(valuesOf(response, 'Content-Encoding')).toEqual(['gzip'])
  })

  test.each([
    ['as it is', (response: ServerResponse) => response.end(Buffer.alloc(101))],
    [
      'chunked',
      (response: ServerResponse) => {
        response.write(Buffer.alloc(60))
        setTimeout(() => response.end(Buffer.alloc(60)), 20)
      },
    ],
    [
      'as a bomb',
      (response: ServerResponse) =>
        response
          .writeHead(200, { 'content-encoding': 'gzip' })
          .end(gzipSync(Buffer.alloc(50_000_000))),
    ],
  ])('that is too long, %s, is an error', async (_name, send) => {
    answer = send
    const enclave = enclaveOf({ limits: { maxResponseBytes: 100 } })
    expect(await failureOf(ask({}, { enclave }))).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: "the answer's body is longer than 100 bytes; the request may have been carried out",
    })
  })

  test('may be as long as the limit, and by default 500 kB', async () => {
    answer = response => response.end(Buffer.alloc(500_000))
    expect((await ask({})).body).toHaveLength(500_000)
    answer = response => response.end(Buffer.alloc(500_001))
    expect(await failureOf(ask({}))).toMatchObject({ code: 'LIMIT' })
  })

  test('without the limits may still not be endless', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).slice(1)
    answer = response => response.end(Buffer.alloc(1_024_001))
    expect(await failureOf(ask({}, { enclave: createEnclave({ plugins }) }))).toMatchObject({
      code: 'LIMIT',
      message:
        "the answer's body is longer than 1024000 bytes; the request may have been carried out",
    })
  })
})

describe('an external server that fails', () => {
  const silent = (): void => undefined

  test('to answer within the timeout is a 504', async () => {
    const response = await askRaw(silent, { timeout: '100ms' })
    expect([response.statusCode, textOf(response)]).toEqual([504, 'upstream request timed out'])
    expect(response.multiHeaders).toEqual({})
  })

  test.each([
    ['its head', 'HTTP/1.1 200 OK\r\nx', 'a'],
    ['its body', reply('200 OK\r\ncontent-length: 1000'), 'a'],
    ['its chunks', reply('200 OK\r\ntransfer-encoding: chunked'), '1\r\na\r\n'],
    ['its announcements', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ])('to end %s within the timeout, dripping on, is a 504', async (_name, start, drop) => {
    const begun = performance.now()
    const response = await askRaw(
      function drip(socket) {
        socket.write(start)
        const timer = setInterval(() => socket.write(drop), 5)
        socket.on('close', () => clearInterval(timer))
      },
      { timeout: '200ms' },
    )
    expect(response.statusCode).toBe(504)
    expect(performance.now() - begun).toBeLessThan(5000)
  })

  test('to shake hands within the timeout is a 504', async () => {
    const tcp = createTcpServer(() => undefined).listen(0, '127.0.0.1')
    closing.push(() => tcp.close())
    await new Promise(resolve => tcp.on('listening', resolve))
    const sockets: { destroy(): void }[] = []
    tcp.on('connection', socket => sockets.push(socket))
    const url = `https://127.0.0.1:${(tcp.address() as AddressInfo).port}/`
    expect((await ask({ url, timeout: '100ms' })).statusCode).toBe(504)
    for (const socket of sockets) socket.destroy()
  })

  test('to be there is a 502', async () => {
    const gone = await startRawServer(silent)
    await gone.close()
    const response = await ask({ url: gone.url })
    expect([response.statusCode, textOf(response)]).toEqual([502, 'upstream connection refused'])
  })

  test('to have an address is a 502', async () => {
    const response = await ask({ url: 'https://nobody.invalid/' })
    expect([response.statusCode, textOf(response)]).toEqual([502, 'upstream host unreachable'])
  })

  test.each([
    ['at once', (socket: TLSSocket) => socket.destroy()],
    ['politely', (socket: TLSSocket) => socket.end()],
    ['within its head', (socket: TLSSocket) => socket.end('HTTP/1.1 200 OK\r\nx: ')],
    [
      'within its body',
      (socket: TLSSocket) => socket.end(reply('200 OK\r\ncontent-length: 100', 'some')),
    ],
    [
      'within its chunks',
      (socket: TLSSocket) => socket.end(reply('200 OK\r\ntransfer-encoding: chunked', '9\r\nsom')),
    ],
    [
      'within its packed body',
      (socket: TLSSocket) =>
        socket.end(
          Buffer.concat([
            Buffer.from(reply('200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 999')),
            gzipSync('text').subarray(0, 9),
          ]),
        ),
    ],
  ])('to answer because it closes %s is a 502', async (_name, speak) => {
    const response = await askRaw(speak)
    expect([response.statusCode, textOf(response)]).toEqual([
      502,
      'upstream closed the connection before responding',
    ])
  })

  test('to speak HTTP, repeating what it heard, does not get that into the error', async () => {
    const multiHeaders = { Authorization: { values: ['{{.apiKey}}'] } }
    let repeated = ''
    const failed = askRaw(
      function repeat(socket, heard) {
        repeated = heard
        socket.end(heard.replace('GET', 'HTTP/1.1 200 OK\r\n:'))
      },
      { multiHeaders },
      { secrets: ['apiKey'] },
    )
    expect(await failureOf(failed)).toMatchObject({ code: 'UPSTREAM_ANSWER' })
    expect(repeated).toContain('sk-live-4242')
  })

  test.each([
    ['garbage', 'this is not HTTP\r\n\r\n'],
    ['two lengths', reply('200 OK\r\ncontent-length: 1\r\ncontent-length: 2', 'ab')],
    ['a chunk without a length', reply('200 OK\r\ntransfer-encoding: chunked', 'zz\r\n')],
    ['too many headers', reply(`200 OK\r\n${'x: yyyyyyyy\r\n'.repeat(8000)}y: z`)],
    ['too long a header', reply(`200 OK\r\nx: ${'y'.repeat(70_000)}`)],
    ['it wants to upgrade', reply('101 Switching\r\nconnection: upgrade\r\nupgrade: websocket')],
  ])('to speak HTTP (%s) is no answer', async (_name, said) => {
    expect(await failureOf(askRaw(socket => socket.end(said)))).toMatchObject({
      name: 'EnclaveError',
      code: 'UPSTREAM_ANSWER',
    })
  })
})

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
    expect(received).toEqual([])
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
    expect(received).toEqual([])
  })

  test('is verified whatever the environment says', async () => {
    const bundle = join(directory, 'enclave.cjs')
    buildSync({
      entryPoints: [join(__dirname, '../../confidential-http/enclave/upstream.ts')],
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
    expect(received).toEqual([])
  })
})

describe('the network policy', () => {
  const blocked = [400, 'upstream request blocked by enclave network policy']

  test.each([
    'https://127.0.0.1/',
    'https://127.1/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://2130706433/',
    'https://127.0.0.1./',
    'https://１２７.0.0.1/',
    'https://localhost/',
    'https://[::1]/',
    'https://[0:0:0:0:0:0:0:1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://0.0.0.0/',
    'https://0/',
    'https://[::]/',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://100.64.0.1/',
    'https://192.168.0.1/',
    'https://[fc00::1]/',
    'https://[fe80::1]/',
    'https://8.8.8.8:22/',
    'https://[2606:4700::1111]:8443/',
    'http://8.8.8.8/',
    'https://user:word@8.8.8.8/',
    'https://8.8.8.8@127.0.0.1/',
  ])('keeps requests from %s', async url => {
    const response = await ask({ url }, { enclave: enclaveOf({ network: {} }) })
    expect([response.statusCode, textOf(response)]).toEqual(blocked)
    expect(response.multiHeaders).toEqual({})
  })

  test('looks at the addresses a name has, and not at the name', async () => {
    const enclave = enclaveOf({ network: { privateNetworks: true } })
    expect((await ask({}, { enclave })).statusCode).toBe(400)
    expect(received).toEqual([])
    expect((await ask({})).statusCode).toBe(200)
  })

  test('comes before the secrets go anywhere, and after they were found', async () => {
    const network = {}
    const enclave = enclaveOf({ network })
    expect((await ask({}, { enclave, secrets: ['apiKey'] })).statusCode).toBe(400)
    expect(await failureOf(ask({}, { enclave, secrets: ['missing'] }))).toMatchObject({
      code: 'VAULT',
    })
  })
})

describe('secrets', () => {
  test('that are not there are an error that names them', async () => {
    expect(await failureOf(ask({}, { secrets: ['apiKey', 'missing'] }))).toMatchObject({
      name: 'VaultError',
      code: 'VAULT',
      message: `key does not exist: 0x${OWNER}::main::missing`,
    })
    expect(received).toEqual([])
  })

  test('of another owner are refused, whoever names them', async () => {
    const other = 'f'.repeat(40)
    const named = [{ key: 'apiKey', namespace: 'main', owner: `0x${other}` }]
    const request = { url: server.url, method: 'GET' }
    const input = { request, vaultDonSecrets: named }
    expect(await failureOf(ask({}, { input }))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('its owner'),
    })
    // Theirs is a name of its own, under which there is nothing.
    expect(await failureOf(ask({}, { input, caller: { owner: other } }))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('key does not exist'),
    })
    expect(received).toEqual([])
  })

  test('of their owner are found however its address is written', async () => {
    const vaultDonSecrets = [{ key: 'apiKey', owner: `0x${OWNER.toUpperCase()}` }]
    const input = {
      request: {
        url: server.url,
        method: 'POST',
        bodyString: '{{.apiKey}}',
        customRootCaCertPem: server.ca,
      },
      vaultDonSecrets,
    }
    await ask({}, { input, caller: { owner: `0X${OWNER}` } })
    expect(received[0]?.body.toString()).toBe('sk-live-4242')
  })

  test.each([undefined, '', 'me', `0x${OWNER}00`])('are nobody’s who is called %j', async owner => {
    const caller = { owner } as never
    expect(await failureOf(ask({}, { caller }))).toMatchObject({
      code: 'VALIDATION',
      message: expect.stringMatching(/^caller\.owner must be an address/),
    })
  })

  test('that are no UTF-8 are refused', async () => {
    await vault.put({ key: 'bytes' }, 'x')
    const file = join(vault.directory, 'secrets', OWNER, 'main', 'bytes.json')
    const stored = JSON.parse(readFileSync(file, 'utf8'))
    const value = Buffer.from('sk-live-4242\xff', 'latin1')
    const ciphertext = await encrypt(vault.publicKey, value, { label: ownerLabel(OWNER) })
    const isText = typeof stored.ciphertext === 'string'
    writeFileSync(
      file,
      JSON.stringify({ ...stored, ciphertext: isText ? ciphertext : JSON.parse(ciphertext) }),
    )
    expect(await failureOf(ask({}, { secrets: ['bytes'] }))).toMatchObject({
      name: 'VaultError',
      message: 'secret bytes: its value is not valid UTF-8',
    })
  })

  test('are released while enough nodes are well, and not with too few', async () => {
    const threefold = await createVault(join(directory, 'threefold'), { owner: OWNER })
    await threefold.put({ key: 'apiKey' }, SECRETS.apiKey)
    const enclave = enclaveOf({ vault: threefold })
    const request = { method: 'POST', bodyString: '{{.apiKey}}' }
    const asking = { enclave, secrets: ['apiKey'] }
    const shareOf = (index: number): string => join(threefold.directory, `nodes/${index}.json`)
    rmSync(shareOf(0))
    await ask(request, asking)
    expect(received[0]?.body.toString()).toBe('sk-live-4242')
    writeFileSync(shareOf(1), readFileSync(shareOf(2)))
    expect(await failureOf(ask(request, asking))).toMatchObject({
      name: 'VaultError',
      message: [
        'secret apiKey: 1 of the 2 shares it takes are good',
        '  node 0: nodes/0.json is missing',
        '  node 1: nodes/1.json is the share of node 2',
      ].join('\n'),
    })
    expect(received).toHaveLength(1)
  })

  test('are read anew for each request', async () => {
    const enclave = enclaveOf()
    const asking = { enclave, secrets: ['changing'] }
    for (const value of ['one', 'other']) {
      await vault.put({ key: 'changing' }, value)
      await ask({ method: 'POST', bodyString: '{{.changing}}' }, asking)
    }
    expect(received.map(({ body }) => body.toString())).toEqual(['one', 'other'])
  })

  test('are not told by a plugin that fails with one in its words', async () => {
    const telling: EnclavePlugin = {
      name: 'telling',
      attempt: () =>
        async function tell(call) {
          const secret = String(call.body)
          throw new EnclaveError(`no: ${secret}`, {
            code: 'POLICY',
            cause: new TypeError(`because of ${secret}`),
          })
        },
    }
    const [limits, secrets, encryption, failures, templates] = confidentialPreset({ vault })
    const inner = [limits, secrets, encryption, failures, templates, telling] as EnclavePlugin[]
    const request = { method: 'POST', bodyString: '{{.apiKey}}' }
    const answered = await ask(request, {
      enclave: createEnclave({ plugins: inner }),
      secrets: ['apiKey'],
    })
    expect(answered.statusCode).toBe(400)
    const outer = inner.filter(({ name }) => name !== 'upstream-failures')
    const asking = { enclave: createEnclave({ plugins: outer }), secrets: ['apiKey'] }
    expect(await failureOf(ask(request, asking))).toMatchObject({
      message: expect.stringMatching(/the reason repeats a secret$/),
    })
  })
})

describe('the encryption of the answer', () => {
  const opened = async (response: HTTPResponse): Promise<string> =>
    Buffer.from(await decryptResponse(response, DIGITS)).toString()
  const withKey = { secrets: [AES_KEY_SECRET] }

  test('is left out unless asked for', async () => {
    expect(textOf(await ask({}))).toBe('ok')
    expect(textOf(await ask({ encryptOutput: false }, { secrets: ['apiKey'] }))).toBe('ok')
  })

  test('is left out unless asked for, also where its key is listed', async () => {
    expect(textOf(await ask({}, withKey))).toBe('ok')
    const asking = { secrets: ['apiKey', AES_KEY_SECRET] }
    const request = { method: 'POST', bodyString: `{{.${AES_KEY_SECRET}}}`, encryptOutput: false }
    expect(await failureOf(ask(request, asking))).toMatchObject({ code: 'TEMPLATE' })
  })

  test('is AES-GCM under the key that is listed', async () => {
    answer = response => response.writeHead(200, { 'content-length': 13 }).end('{"balance":7}')
    const response = await ask({ encryptOutput: true }, withKey)
    expect(response.body).toHaveLength(12 + 13 + 16)
    expect(await opened(response)).toBe('{"balance":7}')
    expect(valuesOf(response, 'Content-Length')).toEqual(['13'])
  })

  test('is TDH2 under the key of the vault where none is', async () => {
    answer = response => response.end('{"balance":7}')
    const response = await ask({ encryptOutput: true })
    expect(textOf(response)).not.toContain('balance')
    expect(Buffer.from(await vault.decryptResponse(response.body)).toString()).toBe('{"balance":7}')
    expect((await ask({ encryptOutput: true })).body).not.toEqual(response.body)
  })

  test('covers every status, and answers that the enclave makes itself', async () => {
    for (const status of [204, 404, 500]) {
      answer = response => response.writeHead(status).end('no'.repeat(status === 204 ? 0 : 1))
      const response = await ask({ encryptOutput: true }, withKey)
      expect(response.statusCode).toBe(status)
      expect(response.body).toHaveLength(status === 204 ? 28 : 30)
      expect(await opened(response)).toBe(status === 204 ? '' : 'no')
    }
    const nobody = await startRawServer(() => undefined)
    for (const [status, text, request] of [
      [400, 'upstream request blocked by enclave network policy', { url: 'https://10.0.0.1/' }],
      [504, 'upstream request timed out', { url: nobody.url, customRootCaCertPem: nobody.ca }],
      [502, 'upstream connection refused', { url: nobody.url }],
    ] as const) {
      if (status === 502) await nobody.close()
      const timeout = status === 504 ? '800ms' : '10s'
      const response = await ask({ ...request, timeout, encryptOutput: true }, withKey)
      expect(response.statusCode).toBe(status)
      expect(textOf(response)).not.toContain('upstream')
      expect(await opened(response)).toBe(text)
    }
  })

  test('takes no key but 64 hexadecimal digits, and asks before anything is sent', async () => {
    for (const value of [DIGITS.slice(2), `${DIGITS}0`, 'a passphrase of thirty-two bytes']) {
      await vault.put({ key: AES_KEY_SECRET, namespace: 'wrong' }, value)
      const input = {
        request: { url: server.url, method: 'GET', encryptOutput: true },
        vaultDonSecrets: [{ key: AES_KEY_SECRET, namespace: 'wrong' }],
      }
      expect(await failureOf(ask({}, { input }))).toMatchObject({
        message: `secret ${AES_KEY_SECRET} must be 64 hexadecimal digits`,
      })
    }
    expect(received).toEqual([])
  })
})

describe('limits', () => {
  test.each([
    ['a timeout above the ceiling', { timeout: '10.001s' }, 'timeout must be at most 10000 ms'],
    ['a request that is too big', { bodyString: 'x'.repeat(125_000) }, 'at most 125000 bytes, not'],
    [
      'bytes that are too many',
      { bodyBytes: new Uint8Array(125_000) },
      'at most 125000 bytes, not',
    ],
  ])('refuse %s, and nothing is sent', async (_name, request, message) => {
    expect(await failureOf(ask({ method: 'POST', ...request }))).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: expect.stringContaining(message),
    })
    expect(received).toEqual([])
  })

  test('count the time that had passed before the enclave was asked', async () => {
    const startedAt = Date.now() - 8000
    const begun = performance.now()
    const response = await askRaw(() => undefined, { timeout: '10s' }, { caller: { startedAt } })
    expect(response.statusCode).toBe(504)
    expect(performance.now() - begun).toBeLessThan(5000)
  })
})

describe('an enclave', () => {
  const silent = (): void => undefined

  test('shows its stack', () => {
    expect(String(enclaveOf().stack)).toBe(
      [
        'you',
        ' │ ↓ call              ↑ reply',
        ' ├ limits              call',
        ' ├ secrets             call',
        ' ├ response-encryption call',
        ' ├ upstream-failures   call',
        ' ├ templates           attempt',
        ' ├ network-policy      attempt',
        ' ├ root-certificates   attempt',
        'wire                   https://…',
      ].join('\n'),
    )
  })

  test('gives the caller’s reason, and sends nothing, where the caller has lost interest', async () => {
    const reason = new Error('enough')
    expect(await failureOf(ask({}, { caller: { signal: AbortSignal.abort(reason) } }))).toBe(reason)
    expect(received).toEqual([])
    const caller = new AbortController()
    const { signal } = caller
    const failed = askRaw(() => caller.abort(reason), {}, { caller: { signal } })
    expect(await failureOf(failed)).toBe(reason)
  })

  test('that is closed ends every request, and takes no more', async () => {
    const enclave = enclaveOf()
    const failed = askRaw(() => enclave.close(), {}, { enclave })
    const closed = { code: 'CLOSED', message: 'the enclave was closed' }
    const amid = `${closed.message}; the request may have been carried out`
    expect(await failureOf(failed)).toMatchObject({ ...closed, message: amid })
    expect(await failureOf(ask({}, { enclave }))).toMatchObject(closed)
  })

  test('answers many at once, each with its own', async () => {
    answer = (response, { body }) => response.end(body)
    const enclave = enclaveOf()
    const texts = Array.from({ length: 20 }, (_, at) => `request ${at}`)
    const replies = await Promise.all(
      texts.map(bodyString => ask({ method: 'POST', bodyString }, { enclave })),
    )
    expect(replies.map(textOf)).toEqual(texts)
  })

  test('shares nothing with another', async () => {
    const strict = enclaveOf({ limits: { maxRequestBytes: 100 }, network: {} })
    const open = enclaveOf()
    const lines: string[] = []
    strict.listen({ debug: line => void lines.push(line), info: line => void lines.push(line) })
    const request = { customRootCaCertPem: '' }
    expect((await ask(request, { enclave: strict })).statusCode).toBe(400)
    const before = lines.length
    await ask({ method: 'POST', bodyString: 'x'.repeat(1000) }, { enclave: open })
    expect(received).toHaveLength(1)
    expect(lines).toHaveLength(before)
    strict.close()
    expect((await ask({}, { enclave: open })).statusCode).toBe(200)
  })

  test('may have plugins before the preset’s, which see no secret', async () => {
    const seen: ConfidentialCall[] = []
    const mine: EnclavePlugin = {
      name: 'mine',
      call: next =>
        async function look(call) {
          seen.push(call)
          const given = await next({ ...call, headers: new Headers({ 'X-Mine': 'set' }) })
          return { ...given, multiHeaders: new Map([...given.multiHeaders, ['X-Seen', ['yes']]]) }
        },
    }
    const multiHeaders = { 'x-mine': { values: ['given'] }, Key: { values: ['{{.apiKey}}'] } }
    const asking = { enclave: enclaveOf({}, [mine]), secrets: ['apiKey'] }
    expect(valuesOf(await ask({ multiHeaders }, asking), 'X-Seen')).toEqual(['yes'])
    expect(inspect(seen, { depth: 9 })).not.toContain('sk-live')
    expect(received[0]?.lines).toContainEqual(['Key', 'sk-live-4242'])
    expect(received[0]?.lines.filter(([name]) => name.toLowerCase() === 'x-mine')).toEqual([
      ['x-mine', 'set'],
    ])
  })

  test('signs what is sent, its placeholders filled, where signing comes after templates', async () => {
    const credentials = { apiKey: 'the-key', userSecret: 'the-user-secret', now: () => 7 }
    const plugins = [
      ...confidentialPreset({ vault, network: { loopback: true } }),
      // It signs whatever goes out: an enclave's requests have all that it reads.
      hmacAuth(credentials) as unknown as EnclavePlugin,
    ]
    const url = `${server.url}/path?q=1`
    const bodyString = '{"k":"{{.apiKey}}"}'
    const asking = { enclave: createEnclave({ plugins }), secrets: ['apiKey'] }
    await ask({ url, method: 'POST', bodyString }, asking)
    const body = '{"k":"sk-live-4242"}'
    const hash = createHash('sha256').update(body).digest('hex')
    const signature = createHmac('sha256', 'the-user-secret')
      .update(`POST /path?q=1 ${hash} the-key 7`)
      .digest('hex')
    expect(received[0]?.body.toString()).toBe(body)
    expect(lineOf('x-authorization-signature-sha256')).toEqual([signature])
    expect(lineOf('authorization')).toEqual(['the-key'])
  })

  test('without the plugin that encrypts refuses to answer in the open', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).filter(
      ({ name }) => name !== 'response-encryption',
    )
    const enclave = createEnclave({ plugins })
    expect(await failureOf(ask({ encryptOutput: true }, { enclave }))).toMatchObject({
      code: 'ENCRYPTION',
      message: 'encryptOutput is true, but no plugin of the stack encrypts',
    })
    expect(received).toEqual([])
    expect(textOf(await ask({}, { enclave }))).toBe('ok')
  })

  test('without the plugin for failures throws them', async () => {
    const plugins = confidentialPreset({ vault }).filter(({ name }) => name !== 'upstream-failures')
    const asking = { enclave: createEnclave({ plugins }) }
    expect(await failureOf(ask({ url: 'https://10.0.0.1/' }, asking))).toMatchObject({
      code: 'POLICY',
    })
  })

  test('without the templates sends what is written, if a header can hold it', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).filter(
      ({ name }) => name !== 'templates',
    )
    const asking = { enclave: createEnclave({ plugins }), secrets: ['apiKey'] }
    await ask({ method: 'POST', bodyString: '{{.apiKey}}' }, asking)
    expect(received[0]?.body.toString()).toBe('{{.apiKey}}')
    const multiHeaders = { Key: { values: ['a\r\nX-Injected: 1'] } }
    expect(await failureOf(ask({ multiHeaders }, asking))).toMatchObject({ code: 'TEMPLATE' })
    expect(received).toHaveLength(1)
  })

  test('carries confidential calls only, of plugins of which each name stands once', () => {
    const twice = [...confidentialPreset({ vault }), ...confidentialPreset({ vault })]
    expect(() => createEnclave({ plugins: twice })).toThrow(/both named "limits"/)
  })

  test('tells its log what was answered, and how long it took', async () => {
    const enclave = enclaveOf()
    const lines: unknown[][] = []
    enclave.listen({ info: (...line) => void lines.push(line) })
    await ask({}, { enclave })
    expect(lines).toEqual([
      [
        expect.stringMatching(/^GET localhost:\d+: 200 in \d+ ms$/),
        {
          method: 'GET',
          host: expect.stringMatching(/^localhost:/),
          status: 200,
          ms: expect.any(Number),
        },
      ],
    ])
    await askRaw(silent, { timeout: '50ms' }, { enclave })
    expect(lines[1]?.[0]).toMatch(/^GET 127.0.0.1:\d+: 504 in/)
  })
})
