import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { confidentialPreset } from 'sluice/presets/confidential'
import { createEnclave } from '../../enclave/enclave.js'
import {
  ask,
  askRaw,
  enclaveOf,
  external,
  reply,
  server,
  textOf,
  valuesOf,
  vault,
} from '../support/enclave.js'

describe('the answer', () => {
  test('has every header line, under canonical names, and the body', async () => {
    external.answer = response => {
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
      external.answer = response => response.writeHead(status).end()
      expect(await ask({})).toMatchObject({ statusCode: status })
    },
  )

  test.each([301, 302, 303, 307, 308])(
    'of status %i is an error where it redirects',
    async status => {
      for (const location of [`${server.url}/other`, 'file:///etc/hosts', '/', '']) {
        external.answer = response =>
          response.writeHead(status, { location }).end('x'.repeat(100_000))
        expect(await failureOf(ask({}))).toMatchObject({
          name: 'EnclaveError',
          code: 'UPSTREAM_ANSWER',
          message: `the external server answered ${status}: redirects are not followed; the request may have been carried out`,
        })
      }
      expect(external.received).toHaveLength(4)
      external.answer = response => response.writeHead(status).end('no location')
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
    external.answer = response =>
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
    external.answer = response => response.writeHead(200, { 'content-encoding': 'gzip' }).end(body)
    expect(await failureOf(ask({}))).toMatchObject({ name: 'EnclaveError', code })
  })

  test.each(['GET', 'HEAD'])('to %s may be packed and empty', async method => {
    external.answer = response =>
      response.writeHead(method === 'GET' ? 204 : 200, { 'content-encoding': 'gzip' }).end()
    const response = await ask({ method })
    expect(response.body).toHaveLength(0)
  })

  test('to HEAD has the headers of the body it would have', async () => {
    external.answer = response =>
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
    external.answer = send
    const enclave = enclaveOf({ limits: { maxResponseBytes: 100 } })
    expect(await failureOf(ask({}, { enclave }))).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: "the answer's body is longer than 100 bytes; the request may have been carried out",
    })
  })

  test('may be as long as the limit, and by default 500 kB', async () => {
    external.answer = response => response.end(Buffer.alloc(500_000))
    expect((await ask({})).body).toHaveLength(500_000)
    external.answer = response => response.end(Buffer.alloc(500_001))
    expect(await failureOf(ask({}))).toMatchObject({ code: 'LIMIT' })
  })

  test('without the limits may still not be endless', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).slice(1)
    external.answer = response => response.end(Buffer.alloc(1_024_001))
    expect(await failureOf(ask({}, { enclave: createEnclave({ plugins }) }))).toMatchObject({
      code: 'LIMIT',
      message:
        "the answer's body is longer than 1024000 bytes; the request may have been carried out",
    })
  })
})
