import { describe, expect, test } from '@jest/globals'
import { createClient, defaultPreset, isStreamsError, type Plugin } from '../../../index.js'
import { failureOf, pause, until } from '../../support/waiting.js'
import { engine, ethUsd, open } from '../../support/wire/stream.js'

describe('close', () => {
  const watched = (stream: ReturnType<typeof open>) =>
    JSON.stringify(stream.seen.events.concat(stream.seen.statuses.map(status => status.type)))

  test.each([
    ['before connect', async () => open()],
    [
      'while connecting',
      async () => {
        const opened = open()
        void failureOf(opened.stream.connect())
        return opened
      },
    ],
    [
      'while shaking hands',
      async () => {
        engine.blackhole(true)
        const opened = open()
        void failureOf(opened.stream.connect())
        await pause(80)
        return opened
      },
    ],
    [
      'while waiting to reconnect',
      async () => {
        const opened = open({ reconnectInterval: 5000 })
        await opened.stream.connect()
        engine.disconnect(1000)
        await until(() => opened.seen.events.includes('reconnecting'))
        return opened
      },
    ],
    [
      'while open',
      async () => {
        const opened = open()
        await opened.stream.connect()
        return opened
      },
    ],
    [
      'while open to a peer that no longer answers',
      async () => {
        const opened = open()
        await opened.stream.connect()
        engine.blackhole(true)
        return opened
      },
    ],
  ])('%s ends it, leaves nothing, and no event comes after', async (_name, make) => {
    const opened = await make()
    const before = watched(opened)
    // What it must not wait for: a handshake has ten seconds, and pings are missed later still.
    let isLate = false
    const late = setTimeout(() => (isLate = true), 9000)
    await Promise.all([opened.stream.close(), opened.stream.close()])
    clearTimeout(late)
    expect(isLate).toBe(false)
    await opened.stream.closed
    engine.blackhole(false)
    engine.publish(ethUsd)
    await pause(100)
    expect(engine.connections).toBe(0)
    expect(watched(opened)).toBe(before)
    expect(opened.seen.errors).toEqual([])
    expect(isStreamsError(await failureOf(opened.stream.connect()), 'CLOSED')).toBe(true)
  })

  test('rejects a connect that is under way', async () => {
    engine.blackhole(true)
    const { stream } = open()
    const connecting = failureOf(stream.connect())
    await stream.close()
    expect(isStreamsError(await connecting, 'CLOSED')).toBe(true)
  })

  test('the signal of the options closes the stream', async () => {
    const controller = new AbortController()
    const { stream } = open({ signal: controller.signal })
    await stream.connect()
    controller.abort()
    await stream.closed
    await until(() => engine.connections === 0)
    const late = open({ signal: controller.signal })
    expect(isStreamsError(await failureOf(late.stream.connect()), 'CLOSED')).toBe(true)
  })

  test('a connect that its signal ends, or had ended before, says that it was aborted, and why', async () => {
    engine.blackhole(true)
    const reason = new Error('mine')
    const controller = new AbortController()
    const under = open({ signal: controller.signal })
    const connecting = failureOf(under.stream.connect())
    controller.abort(reason)
    const late = open({ signal: controller.signal })
    const errors = [await connecting]
    for (const { stream } of [under, late]) errors.push(await failureOf(stream.connect()))
    const message = 'the stream was aborted by the signal of its options'
    for (const error of errors)
      expect(error).toMatchObject({ code: 'CLOSED', message, cause: reason })
    expect(engine.connections).toBe(0)

    const closed = open({ signal: new AbortController().signal })
    await closed.stream.close()
    expect((await failureOf(closed.stream.connect())).message).toMatch(/^the stream has ended/)
  })

  test('closing the client closes its streams', async () => {
    const { client, stream } = open()
    await stream.connect()
    await client.close()
    await stream.closed
    expect(() => client.createStream(ethUsd)).toThrow(/the client was closed/)
  })
})

test('says which reports were acknowledged, and which will not be', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const acknowledged: number[] = []
  const unacknowledged: number[] = []
  const watching: Plugin = {
    name: 'watching',
    acknowledged: report => void acknowledged.push(report.observationsTimestamp),
    unacknowledged: report => void unacknowledged.push(report.observationsTimestamp),
  }
  const plugins = [watching, ...defaultPreset({ apiKey, userSecret })]
  for (const close of ['loop', 'overflow'] as const) {
    const client = createClient({ endpoint, wsEndpoint, plugins })
    const stream = client.createStream(
      ethUsd,
      close === 'overflow' ? { queue: 2, overflow: 'drop-oldest' } : {},
    )
    await stream.connect()
    const times = Array.from({ length: 4 }, () => engine.publish(ethUsd).observationsTimestamp)
    await until(() => stream.getMetrics().accepted === 4)
    let read = 0
    // The second is left in the midst, and the others wait.
    if (close !== 'overflow') for await (const _ of stream) if (++read === 2) break
    await client.close()
    expect([...acknowledged.splice(0), 'not', ...unacknowledged.splice(0).sort()]).toEqual(
      close === 'overflow' ? ['not', ...times] : [times[0], 'not', ...times.slice(1)],
    )
  }
})
