import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { ask, askRaw, closing, reply, textOf } from '../support/enclave.js'
import { startRawServer } from '../support/raw-server.js'

describe('an external server that fails', () => {
  const answerNothing = (): void => undefined

  test('to answer within the timeout is a 504', async () => {
    const response = await askRaw(answerNothing, { timeout: '100ms' })
    expect([response.statusCode, textOf(response)]).toEqual([504, 'upstream request timed out'])
    expect(response.multiHeaders).toEqual({})
  })

  test.each([
    ['its head', 'HTTP/1.1 200 OK\r\nx', 'a'],
    ['its body', reply('200 OK\r\ncontent-length: 1000'), 'a'],
    ['its chunks', reply('200 OK\r\ntransfer-encoding: chunked'), '1\r\na\r\n'],
    ['its announcements', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ])('to end %s within the timeout, dripping on, is a 504', async (_name, start, drop) => {
    const response = await askRaw(
      function drip(socket) {
        socket.write(start)
        const timer = setInterval(() => socket.write(drop), 5)
        socket.on('close', () => clearInterval(timer))
      },
      { timeout: '200ms' },
    )
    expect(response.statusCode).toBe(504)
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
    const gone = await startRawServer(answerNothing)
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

  test('to speak HTTP, repeating the request, does not get that into the error', async () => {
    const multiHeaders = { Authorization: { values: ['{{.apiKey}}'] } }
    let repeated = ''
    const failed = askRaw(
      function repeat(socket, request) {
        repeated = request
        socket.end(request.replace('GET', 'HTTP/1.1 200 OK\r\n:'))
      },
      { multiHeaders },
      { secrets: ['apiKey'] },
    )
    expect(await failureOf(failed)).toMatchObject({ code: 'UPSTREAM_ANSWER' })
    expect(repeated).toContain('sk-live-x9q7')
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
