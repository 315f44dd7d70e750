import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { AES_KEY_SECRET } from 'sluice/plugins/confidential-http'
import {
  ask,
  enclaveOf,
  external,
  lineOf,
  type Received,
  SECRETS,
  server,
  textOf,
  valuesOf,
} from '../support/enclave.js'

describe('a confidential request', () => {
  test('arrives as it was written, lines of a name together and byte by byte', async () => {
    external.answer = response => response.writeHead(201, { 'x-one': '1' }).end('made')
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
    expect(external.received).toHaveLength(1)
    const [{ method, url, lines, body } = {} as Received] = external.received
    expect([method, url]).toEqual(['PUT', '/a%20b?q=%7B%7B.apiKey%7D%7D&x={.apiKey}'])
    expect(body.toString()).toBe('{"k":"sk-live-x9q7","n":"é"}')
    expect(lines.map(([name, value]) => [name, Buffer.from(value, 'latin1').toString()])).toEqual([
      ['host', `localhost:${server.port}`],
      ['X-Many', 'b'],
      ['X-Many', 'a'],
      ['X-Many', ''],
      ['X-Many', 'b'],
      ['X-Many', 'c'],
      ['Cookie', 'one=1; two=sk-live-x9q7'],
      ['Authorization', 'Bearer sk-live-x9q7'],
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
    expect(external.received[0]?.body).toEqual(bytes)
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
    expect(external.received[0]?.method).toBe(method.toUpperCase())
    expect(lineOf('content-length')).toEqual(length)
    expect(lineOf('Transfer-Encoding')).toEqual([])
    expect(external.received[0]?.body.toString()).toBe(bodyString ?? '')
  })

  test('has a connection of its own', async () => {
    const enclave = enclaveOf()
    await ask({}, { enclave })
    await ask({}, { enclave })
    expect(external.received[0]?.port).not.toBe(external.received[1]?.port)
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
    expect(external.received[0]?.body.toString()).toBe('P sk-"live"\\x9q7')
  })

  test('puts a secret with quotes into JSON, a form and a header, where functions say so', async () => {
    await ask(
      {
        method: 'POST',
        bodyString: '{"key":{{json .quoted}},"form":"k={{.quoted | urlquery}}"}',
        multiHeaders: { Authorization: { values: ['Basic {{basicAuth .user .quoted}}'] } },
        templatePublicValues: { user: 'me' },
      },
      { secrets: ['quoted'] },
    )
    expect(JSON.parse(String(external.received[0]?.body))).toEqual({
      key: SECRETS.quoted,
      form: new URLSearchParams({ k: SECRETS.quoted }).toString(),
    })
    expect(lineOf('Authorization')).toEqual([`Basic ${btoa(`me:${SECRETS.quoted}`)}`])
  })

  test('is filled in one pass', async () => {
    await ask({ method: 'POST', bodyString: '<{{.braces}}>' }, { secrets: ['braces', 'apiKey'] })
    expect(external.received[0]?.body.toString()).toBe('<{{.apiKey}}-x9q7>')
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
    expect(external.received).toEqual([])
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
    expect(external.received).toEqual([])
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
    expect(external.received).toEqual([])
  })

  test('keeps a URL within its request line, whatever is in it', async () => {
    await ask({ url: `${server.url}/é<>"\`{|}\\^?ключ=🔑#part` })
    expect(external.received[0]?.url).toMatch(/^\/%C3%A9[\x21-\x7e]+$/)
    expect(external.received[0]?.url).not.toContain('#')
  })

  test('asks for an encoding unless the caller does, or wants a part, or no body', async () => {
    await ask({})
    expect(lineOf('accept-encoding')).toEqual(['gzip'])
    for (const request of [
      { multiHeaders: { Range: { values: ['bytes=0-1'] } } },
      { method: 'HEAD' },
    ]) {
      external.received = []
      await ask(request)
      expect(lineOf('accept-encoding')).toEqual([])
    }
    external.received = []
    const packed = gzipSync('packed')
    external.answer = response =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
    const response = await ask({ multiHeaders: { 'Accept-Encoding': { values: ['gzip, br'] } } })
    expect(lineOf('Accept-Encoding')).toEqual(['gzip, br'])
    expect(Buffer.from(response.body)).toEqual(packed)
    expect(valuesOf(response, 'Content-Encoding')).toEqual(['gzip'])
  })
})
