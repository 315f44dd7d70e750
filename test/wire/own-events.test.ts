import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type Client, createClient, defaultPreset, type Plugin } from '../../index.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { until } from '../support/waiting.js'

/** Users declare the type of an event too, by merging interfaces; here that would change the sources. */
const moved = 'price-move' as 'gap'
type Listener = (move: unknown) => void

const feed = feedID(3)
let service: Service
const clients: Client[] = []

beforeAll(async () => {
  service = await startService({ feeds: [feed] })
})
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close()
})
afterAll(() => service.close())

/** Emits an event for every report. */
const moves: Plugin = {
  name: 'moves',
  events: ['price-move'],
  report: (next, scope) =>
    function passOn(report) {
      next(report)
      if (scope.kind === 'stream')
        scope.events.emit(moved, { feedID: report.feedID, by: 3 } as never)
    },
}

function open(...own: readonly Plugin[]) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const plugins = [...own, ...defaultPreset({ apiKey, userSecret })]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  clients.push(client)
  return client.createStream(feed)
}

test('an event that a plugin declares reaches the other plugins and the user', async () => {
  const got: unknown[] = []
  const listener: Plugin = {
    name: 'listener',
    report: (next, scope) => {
      if (scope.kind === 'stream')
        scope.defer(scope.events.on(moved, (move => void got.push(['plugin', move])) as Listener))
      return next
    },
  }
  const stream = open(listener, moves)
  stream.on(moved, (move => void got.push(['user', move])) as Listener)
  await stream.connect()
  service.publish(feed)
  await until(() => got.length === 2)
  const move = { feedID: feed, by: 3 }
  expect(got).toEqual([
    ['plugin', move],
    ['user', move],
  ])
})

describe('an event that nobody declares', () => {
  const wrong = 'price-moves' as 'gap'

  test.each([
    ['on', () => open(moves).on(wrong, () => undefined)],
    ['once', () => open(moves).once(wrong, () => undefined)],
    ['off', () => open(moves).off(wrong, () => undefined)],
    ['addListener', () => open(moves).addListener(wrong, () => undefined)],
    ['removeListener', () => open(moves).removeListener(wrong, () => undefined)],
    ['removeAllListeners', () => open(moves).removeAllListeners(wrong)],
    ['listenerCount', () => open(moves).listenerCount(wrong)],
    ['listeners', () => open(moves).listeners(wrong)],
    ['emit', () => open(moves).emit(wrong)],
  ])('is an error of %s, which names the nearest', (_method, call) => {
    expect(call).toThrow(
      expect.objectContaining({
        code: 'VALIDATION',
        message: "unknown event 'price-moves'; did you mean 'price-move'?",
      }),
    )
  })

  test.each([
    ['reprot', "unknown event 'reprot'; did you mean 'report'?"],
    ['Error', "unknown event 'Error'; did you mean 'error'?"],
    ['price-move', "unknown event 'price-move'; there is report, error, connected, "],
    ['constructor', "unknown event 'constructor'; there is report, "],
    [Symbol('x'), "unknown event 'Symbol(x)'; there is report, "],
    [undefined, "unknown event 'undefined'; there is report, "],
  ])('is an error: %p', (event, message) => {
    const stream = open()
    expect(() => stream.on(event as 'report', () => undefined)).toThrow(message)
    expect(stream.eventNames()).toEqual([])
  })

  test('is none where Node’s emitter has it, which a stream never emits: a warning says so once', () => {
    const stream = open()
    const seen: unknown[] = []
    for (const name of ['newListener', 'removeListener'])
      stream.on(name as 'report', (each: unknown) => void seen.push(each))
    stream.on('error', () => undefined)
    expect(seen).toEqual([])
    expect(stream.listenerCount('newListener' as 'report')).toBe(1)
  })

  test('is an error for a plugin that listens, too', async () => {
    const deaf: Plugin = {
      name: 'deaf',
      report: (next, scope) => {
        if (scope.kind === 'stream') scope.events.on('gpa' as 'gap', () => undefined)
        return next
      },
    }
    await expect(open(deaf).connect()).rejects.toThrow("unknown event 'gpa'; did you mean 'gap'?")
  })
})
