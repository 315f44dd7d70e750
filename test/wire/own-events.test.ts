import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import {
  type Client,
  createClient,
  defaultPreset,
  type Plugin,
  type Report,
  type Stream,
} from '../../index.js'
import { candles } from '../../plugins/candles/index.js'
import { type MarketVerdict, marketGuard } from '../../plugins/market-guard/index.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { until } from '../support/waiting.js'

interface Move {
  readonly feedID: string
  readonly by: number
}
interface MoveEvents {
  readonly 'price-move': Move
}

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
const moves: Plugin<never, MoveEvents> = {
  name: 'moves',
  events: ['price-move'],
  report: (next, scope) =>
    function passOn(report) {
      next(report)
      if (scope.kind === 'stream')
        scope.events.emit<MoveEvents>('price-move', { feedID: report.feedID, by: 3 })
    },
}

function open<const Own extends readonly Plugin[]>(...own: Own) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const plugins = [...own, ...defaultPreset({ apiKey, userSecret })] as const
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
        scope.defer(
          scope.events.on<MoveEvents>('price-move', move => void got.push(['plugin', move])),
        )
      return next
    },
  }
  const stream = open(listener, moves)
  stream.on('price-move', (move: Move) => void got.push(['user', move]))
  await stream.connect()
  service.publish(feed)
  await until(() => got.length === 2)
  const move = { feedID: feed, by: 3 }
  expect(got).toEqual([
    ['plugin', move],
    ['user', move],
  ])
})

test('only a stack with the plugin has its events, in the types as at run time', () => {
  const access = { endpoint: service.endpoint, wsEndpoint: service.wsEndpoint }
  const keys = { apiKey: service.apiKey, userSecret: service.userSecret }
  const guard = marketGuard()
  const bars = candles({ intervals: ['1m'] })
  const preset = defaultPreset(keys)

  /** Listens without asking the types. */
  const listen = (client: Client, event: string) => {
    clients.push(client)
    client.createStream(feed).on(event as 'gap', () => undefined)
  }
  const unknown = /unknown event '(market|candle|retiring)'/
  const configured = createClient({ ...access, ...keys })
  expect(() => listen(configured, 'market')).toThrow(unknown)
  listen(configured, 'retiring')
  const bare = createClient({ ...access, plugins: [bars] })
  expect(() => listen(bare, 'retiring')).toThrow(unknown)
  listen(bare, 'candle')

  /** What the types say: the compiler checks it, and nothing of it runs. */
  const typed = (): void => {
    configured.createStream(feed).on('retiring', ({ daysLeft }) => daysLeft.toFixed())
    // @ts-expect-error: its stack has no marketGuard
    configured.createStream(feed).on('market', () => undefined)
    // @ts-expect-error: its stack has no retirement
    bare.createStream(feed).on('retiring', () => undefined)
    // @ts-expect-error: a candle is no verdict
    bare.createStream(feed).on('candle', (candle: MarketVerdict) => candle)
    // In a list of its own, in the call, under another name, and among plugins without a type.
    const listed = [guard, bars, ...preset]
    const anyOther: Plugin = { name: 'other' }
    for (const client of [
      createClient({ ...access, plugins: listed }),
      createClient({ ...access, plugins: [guard, bars, ...preset] }),
      createClient({ ...access, plugins: [anyOther, guard, { ...bars, name: 'mine' }, ...preset] }),
    ]) {
      const stream = client.createStream(feed)
      stream.on('market', ({ tradable }) => tradable === true).on('candle', ({ open }) => open + 1n)
      stream.once('retiring', ({ at }) => at.getTime())
      // @ts-expect-error: its stack has no sink
      stream.on('sink', () => undefined)
      // A function for any stream takes it, and a list of any plugins may hold each.
      const any: Stream = stream
      any.on('report', report => report.feedID)
    }
    // Code for any client takes the type without events.
    const generic = <Data>(stream: Stream<Data>, take: (report: Report<Data>) => void): void => {
      stream.on('report', take).on('error', ({ message }) => message.length)
      stream.on('status', ({ type }) => type.length)
    }
    generic(bare.createStream(feed), report => report.feedID)
    generic(configured.createStream(feed), ({ decoded }) => decoded.version)
    const plugins: Plugin[] = [guard, bars, ...preset]
    const stream = createClient({ ...access, plugins }).createStream(feed)
    // @ts-expect-error: this list has forgotten which plugins it holds
    stream.on('market', () => undefined)
  }
  expect(typed).toBeInstanceOf(Function)
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
