import type { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { HTTPResponse } from '../../types.js'
import { ask, askRaw, external, reply, textOf } from '../support/enclave.js'

/** How many pieces of any size an answer may have. */
const MOST = 16_384
const CHUNKED = '200 OK\r\ntransfer-encoding: chunked'

const chunks = (count: number, chunk = '1\r\nx\r\n'): string => `${chunk.repeat(count)}0\r\n\r\n`

/** Says each byte in a TLS record of its own. */
function dripRecords(socket: TLSSocket, text: string): void {
  let at = 0
  const next = (): unknown =>
    at < text.length && !socket.destroyed && socket.write(text.charAt(at++), next)
  next()
}

/** A request that runs meanwhile, and must not notice. */
let neighbour: Promise<HTTPResponse>
function startNeighbour(): void {
  external.answer = response => setTimeout(() => response.end('ok'), 50)
  neighbour = ask({})
}
afterEach(async () => expect(textOf(await neighbour)).toBe('ok'))

describe('an answer in small pieces', () => {
  test('may be a stream of events', async () => {
    startNeighbour()
    const event = 'data: 0123456789abcdefghijkl\n\n'
    const answer = reply(CHUNKED, chunks(16_000, `1e\r\n${event}\r\n`))
    const response = await askRaw(socket => socket.end(answer))
    expect(textOf(response)).toBe(event.repeat(16_000))
  })

  test.each([
    ['chunks', (socket: TLSSocket) => socket.end(reply(CHUNKED, chunks(499_000)))],
    [
      'chunks of a compressed body',
      (socket: TLSSocket) =>
        socket.end(reply(`${CHUNKED}\r\ncontent-encoding: gzip`, chunks(499_000))),
    ],
    [
      'one chunk more than the limit',
      (socket: TLSSocket) => socket.end(reply(CHUNKED, chunks(MOST + 1))),
    ],
  ])('fails alone: %s', async (_name, speak) => {
    startNeighbour()
    expect(await failureOf(askRaw(speak))).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: `the answer's body comes in more than ${MOST} small pieces; the request may have been carried out`,
    })
  })

  test('fails alone: TLS records', async () => {
    startNeighbour()
    let written = 0
    const said = reply('200 OK\r\ncontent-length: 400000', 'x'.repeat(400_000))
    function drip(socket: TLSSocket): void {
      dripRecords(socket, said)
      socket.on('close', () => {
        written = socket.bytesWritten
      })
    }
    const failure = await failureOf(askRaw(drip, {}, { caller: { name: 'with-records' } }))
    expect(failure).toMatchObject({
      code: 'LIMIT',
      message: expect.stringContaining('too many small pieces'),
    })
    expect(written).toBeLessThan(said.length)
  })

  test('are read in turn, if one caller has many of them', async () => {
    startNeighbour()
    const size = 12_000
    const said = reply(`200 OK\r\ncontent-length: ${size}`, 'x'.repeat(size))
    const begun = performance.now()
    const caller = { name: 'with-many-answers' }
    const answers = [1, 2].map(() => askRaw(socket => dripRecords(socket, said), {}, { caller }))
    for (const response of await Promise.all(answers)) expect(textOf(response)).toHaveLength(size)
    // These are 7616 more reads than a caller may do at once, and 5000 a second are added.
    expect(performance.now() - begun).toBeGreaterThan(1200)
  })

  test('are read at once, if each has two', async () => {
    startNeighbour()
    const caller = { name: 'with-two-pieces' }
    const speak = (socket: TLSSocket): unknown =>
      socket.write(reply('200 OK\r\ncontent-length: 2'), () => socket.end('ok'))
    // If each took a thousand reads of the budget, the last ones would rest longer than they may take.
    for (let count = 0; count < 60; count++)
      expect(textOf(await askRaw(speak, { timeout: '5s' }, { caller }))).toBe('ok')
  })

  test('costs no more where it is compressed, and is put together', async () => {
    startNeighbour()
    const body = gzipSync(Buffer.from('text '.repeat(10_000)))
    const drip = [...body].map(byte =>
      Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
    )
    const head = Buffer.from(reply(`${CHUNKED}\r\ncontent-encoding: gzip`))
    const response = await askRaw(socket =>
      socket.end(Buffer.concat([head, ...drip, Buffer.from('0\r\n\r\n')])),
    )
    expect(textOf(response)).toBe('text '.repeat(10_000))
  })
})

test('an answer is bounded with all that is not its body', async () => {
  startNeighbour()
  const announcement = `HTTP/1.1 103 x\r\nx: ${'y'.repeat(60_000)}\r\n\r\n`
  const said = announcement.repeat(50) + reply('200 OK\r\ncontent-length: 2', 'ok')
  expect(await failureOf(askRaw(socket => socket.end(said)))).toMatchObject({
    code: 'LIMIT',
    message:
      'the external server sent more than 762144 bytes; the request may have been carried out',
  })
})
