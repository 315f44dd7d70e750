import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { pause, until } from '../../support/waiting.js'
import { btcUsd, engine, ethUsd, fast, open } from '../../support/wire/stream.js'

describe('bad data', () => {
  test('a malformed message is one error event and a count, and the stream goes on', async () => {
    const { stream, seen } = open()
    await stream.connect()
    const good = engine.publish(ethUsd)
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = good
    const record = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
    const bad: [string | Uint8Array, RegExp, string][] = [
      ['not json', /it is not JSON/, 'WS_FRAME'],
      [Uint8Array.of(0xff, 0xfe, 0), /it is not JSON/, 'WS_FRAME'],
      ['', /it is not JSON/, 'WS_FRAME'],
      ['null', /an object with a report/, 'WS_FRAME'],
      ['[]', /an object with a report/, 'WS_FRAME'],
      ['{"report":null}', /report must be an object, not null/, 'WS_FRAME'],
      ['{"report":{}}', /report\.feedID must be/, 'WS_FRAME'],
      [
        JSON.stringify({ report: { ...record, fullReport: 7 } }),
        /report\.fullReport must be a string/,
        'WS_FRAME',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: '0x00' } }),
        /whole words|cut short/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, observationsTimestamp: '5' } }),
        /observationsTimestamp must be a whole number/,
        'WS_FRAME',
      ],
      [
        JSON.stringify({ report: { ...record, observationsTimestamp: 4_102_444_800 } }),
        /envelope.s observationsTimestamp is 4102444800/,
        'DECODING',
      ],
      [JSON.stringify({ report: { ...record, feedID: btcUsd } }), /signed for feed/, 'DECODING'],
      [
        JSON.stringify({ report: { ...record, feedID: `0x0003${'00'.repeat(30)}` } }),
        /signed for feed/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: `${fullReport}00` } }),
        /whole words/,
        'DECODING',
      ],
      [
        JSON.stringify({ report: { ...record, fullReport: fullReport + '0'.repeat(64) } }),
        /its parts take/,
        'DECODING',
      ],
    ]
    for (const [raw] of bad) engine.send(raw)
    const last = engine.publish(ethUsd)
    await until(() => seen.reports.length === 2)
    expect(seen.reports[1]).toBe(`${ethUsd}:${last.observationsTimestamp}`)
    expect(seen.errors.map(error => (error as Error & { code: string }).code)).toEqual(
      bad.map(([, , code]) => code),
    )
    for (const [index, [, message]] of bad.entries())
      expect(seen.errors[index]?.message).toMatch(message)
    expect(stream.getMetrics()).toMatchObject({
      accepted: 2,
      malformed: bad.length,
      fullReconnects: 0,
    })
    expect(seen.events).toEqual(['connected'])
  })

  test('a report of a feed that is not subscribed is refused', async () => {
    const { stream, seen } = open({}, {}, ethUsd)
    await stream.connect()
    const other = engine.publish(btcUsd)
    engine.send(JSON.stringify({ report: { feedID: other.feedID, fullReport: other.fullReport } }))
    await until(() => seen.errors.length === 1)
    expect(seen.errors[0]?.message).toMatch(/which is not subscribed/)
    expect(seen.reports).toEqual([])
  })

  test('an envelope without times takes them from the blob', async () => {
    const { stream, seen } = open({}, {}, ethUsd)
    const other = engine.publish(ethUsd)
    await stream.connect()
    engine.send(JSON.stringify({ report: { feedID: other.feedID, fullReport: other.fullReport } }))
    await until(() => seen.reports.length === 1)
    expect(seen.reports).toEqual([`${ethUsd}:${other.observationsTimestamp}`])
  })

  test('a message over the limit costs the connection, not the stream', async () => {
    const { stream, seen } = open(fast)
    await stream.connect()
    engine.send('x'.repeat(1_100_000))
    await until(() => seen.events.filter(event => event === 'connected').length === 2)
  })

  test('broken WebSocket framing is one reconnection', async () => {
    const { createHash } = await import('node:crypto')
    let upgrades = 0
    const sockets = new Set<Socket>()
    const server = createServer(socket => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.once('data', request => {
        upgrades++
        const key = /sec-websocket-key: (.*)\r/i.exec(request.toString())?.[1]
        const accept = createHash('sha1')
          .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
          .digest('base64')
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        )
        if (upgrades === 1) setTimeout(() => socket.write(Buffer.alloc(16, 0xff)), 20)
      })
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { stream, seen } = open(fast, {
      wsEndpoint: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    })
    await stream.connect()
    await until(() => upgrades === 2)
    await pause(300)
    expect(upgrades).toBe(2)
    expect(seen.events).toEqual(['connected', 'disconnected', 'reconnecting', 'connected'])
    await stream.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
})
