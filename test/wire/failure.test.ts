import { describe, expect, test } from '@jest/globals'
import {
  type ContinuityOptions,
  type CursorStore,
  createClient,
  defaultPreset,
  type Gap,
  type Plugin,
  type Stream,
  type StreamOptions,
} from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

const fast = feedID(3, 1, { milliseconds: true })
const closers = closeAfterEach()

async function start(): Promise<Service> {
  const service = await startService({ feeds: [fast], origins: ['001'], signatures: 'dummy' })
  closers.push(() => service.close())
  return service
}

interface Setup {
  readonly order?: ContinuityOptions['order']
  readonly stream?: StreamOptions
  readonly plugins?: readonly Plugin[]
}

/** A stream that gives up after one attempt, and all that came of it in the order it came. */
function open(service: Service, { order = 'arrival', stream: options, plugins = [] }: Setup = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [
      ...plugins,
      ...defaultPreset({ apiKey, userSecret, retryAttempts: 0, continuity: { order } }),
    ],
  })
  closers.push(() => client.close())
  const stream = client.createStream(fast, {
    reconnectInterval: 200,
    maxReconnectAttempts: 1,
    saveInterval: 0,
    ...options,
  })
  const log: (string | number)[] = []
  const gaps: Gap[] = []
  stream.on('gap', gap => {
    gaps.push(gap)
    log.push('gap')
  })
  stream.on('error', () => void log.push('error'))
  stream.on('disconnected', () => void log.push('disconnected'))
  stream.closed.catch(() => log.push('closed'))
  return { stream, log, gaps }
}

/** Follows reports by their times. */
function take({ stream, log }: ReturnType<typeof open>) {
  stream.on('report', ({ observationsTimestamp: time }) => void log.push(time))
}

/** One report arrives, three are stored and can not be fetched, and another one arrives. */
async function miss(service: Service) {
  const first = service.publish(fast, { observed: Date.now() - 1000 })
  service.fail({ on: 'rest', answer: 503 })
  for (let count = 0; count < 3; count++)
    service.store(fast, { observed: first.observed + 10 + count })
  return { first: first.observed, last: service.publish(fast).observed }
}

const received = (stream: Stream): number | undefined =>
  Object.values(stream.getMetrics().origins)[0]?.received

/** Cursors in memory. */
function memory(): CursorStore & { saved: Record<string, number> } {
  const store = {
    saved: {} as Record<string, number>,
    load: async () => store.saved,
    async save(cursors: Readonly<Record<string, number>>) {
      store.saved = { ...cursors }
    },
  }
  return store
}

describe('a stream that ends by itself', () => {
  test('announces what is missing, before it says that it has ended', async () => {
    const service = await start()
    const followed = open(service)
    take(followed)
    const { stream, log, gaps } = followed
    await stream.connect()
    const { first, last } = await miss(service)
    await until(() => log.includes(last))
    await service.stop()
    await failureOf(stream.closed)
    await pause(0)
    expect(log.filter(each => each !== 'disconnected')).toEqual([
      first,
      last,
      'gap',
      'error',
      'closed',
    ])
    expect(gaps).toEqual([{ feedID: fast, from: first + 1, to: first + 12, cause: 'unavailable' }])
    expect(stream.getMetrics()).toMatchObject({ accepted: 2, gaps: 1 })
  })

  test('passes on the delayed reports, in order, to events and iterators alike', async () => {
    const service = await start()
    const followed = open(service, { order: 'sorted' })
    take(followed)
    const { stream, log } = followed
    const iterated: number[] = []
    const iteration = (async () => {
      for await (const report of stream) iterated.push(report.observationsTimestamp)
    })()
    await stream.connect()
    const { first, last } = await miss(service)
    const [next, newest] = [service.publish(fast), service.publish(fast)]
    service.skip(fast)
    const far = service.send(fast).observed
    await until(() => received(stream) === 5)
    await service.stop()
    const failure = await failureOf(iteration)
    await pause(0)
    const times = [first, last, next.observed, newest.observed, far]
    expect(iterated).toEqual(times)
    expect([failure.name, failure.code]).toEqual(['WebSocketError', 'WS_GAVE_UP'])
    expect(log.filter(each => each !== 'disconnected')).toEqual([
      ...times,
      'gap',
      'gap',
      'error',
      'closed',
    ])
    expect(await failureOf(stream.closed)).toBe(failure)
    expect(stream.getMetrics()).toMatchObject({ accepted: 5, gaps: 2 })
  })

  test('leaves its cursor before what is missing, and another stream fetches that', async () => {
    const service = await start()
    const cursors = memory()
    const followed = open(service, { stream: { cursors } })
    take(followed)
    await followed.stream.connect()
    const { first, last } = await miss(service)
    await until(() => followed.log.includes(last))
    await service.stop()
    await failureOf(followed.stream.closed)
    await until(() => cursors.saved[fast] === first)
    service.heal()
    await service.start()
    const again = open(service, { stream: { cursors } })
    take(again)
    await again.stream.connect()
    const { observed } = service.publish(fast)
    await until(() => again.log.length >= 5)
    expect(again.log.sort()).toEqual([first + 10, first + 11, first + 12, last, observed])
    expect(again.gaps).toEqual([])
  })

  test('runs what a plugin does before that, and what was passed on then is delivered', async () => {
    const service = await start()
    const held: (() => void)[] = []
    const hold: Plugin = {
      name: 'hold',
      report(next, scope) {
        if (scope.kind === 'stream')
          scope.events.on('ending', () => {
            for (const each of held) each()
          })
        return report => void held.push(() => next(report))
      },
    }
    const followed = open(service, { plugins: [hold] })
    take(followed)
    const { stream, log } = followed
    await stream.connect()
    const { observed } = service.publish(fast)
    await until(() => held.length === 1)
    await service.stop()
    await failureOf(stream.closed)
    expect(log.filter(each => each !== 'disconnected')).toEqual([observed, 'error', 'closed'])
  })

  test('lets the plugin nearest to the wire pass on first, so that nothing is new to one that is through', async () => {
    const service = await start()
    const calls: string[] = []
    const waiting = (name: string): Plugin => ({
      name,
      report(next, scope) {
        const held: (() => void)[] = []
        if (scope.kind === 'stream')
          scope.events.on('ending', () => {
            calls.push(`${name} ${held.length}`)
            for (const each of held) each()
          })
        return report => void held.push(() => next(report))
      },
    })
    const followed = open(service, { plugins: [waiting('upper'), waiting('lower')] })
    take(followed)
    const { stream, log } = followed
    await stream.connect()
    const { observed } = service.publish(fast)
    await until(() => received(stream) === 1)
    await service.stop()
    await failureOf(stream.closed)
    expect(calls).toEqual(['lower 1', 'upper 1'])
    expect(log).toContain(observed)
  })

  test('says nothing of what comes after the user has closed it, and cursors stay below that', async () => {
    const service = await start()
    const cursors = memory()
    const followed = open(service, { order: 'sorted', stream: { cursors } })
    take(followed)
    const { stream, log } = followed
    await stream.connect()
    const { first } = await miss(service)
    await until(() => received(stream) === 2)
    await stream.close()
    expect(log).toEqual([first])
    expect(cursors.saved[fast]).toBe(first)
  })

  test('can be closed by a handler of the gap that it announces', async () => {
    const service = await start()
    const followed = open(service, { order: 'sorted' })
    take(followed)
    const { stream, log } = followed
    stream.on('gap', () => void stream.close())
    await stream.connect()
    const { first, last } = await miss(service)
    await until(() => received(stream) === 2)
    await service.stop()
    await stream.closed
    expect(log.filter(each => each !== 'disconnected')).toEqual([first, last, 'gap'])
  })

  test('announces what comes when its queue has overflowed', async () => {
    const service = await start()
    const { stream, gaps } = open(service, { stream: { queue: 2, overflow: 'close' } })
    const first = stream.read()
    await stream.connect()
    const begin = Date.now() - 1000
    const times = Array.from({ length: 10 }, (_, index) => begin + index)
    for (const observed of times) service.publish(fast, { observed })
    expect((await first).observationsTimestamp).toBe(begin)
    await failureOf(stream.closed)
    expect(
      [await stream.read(), await stream.read()].map(each => each.observationsTimestamp),
    ).toEqual(times.slice(1, 3))
    const isAnnounced = (time: number) =>
      gaps.some(({ from, to, cause }) => cause === 'overflow' && time >= from && time <= to)
    expect(times.filter(isAnnounced)).toEqual(times.slice(3))
    expect(stream.getMetrics()).toMatchObject({ accepted: 4, dropped: 1, gaps: 2 })
  })
})

test('what waits when a stream fails is given to a handler that is added afterwards', async () => {
  const service = await start()
  const { stream, log } = open(service)
  await stream.connect()
  const times = [1, 2, 3].map(() => service.publish(fast).observed)
  await until(() => stream.getMetrics().accepted === times.length)
  await service.stop()
  await failureOf(stream.closed)
  log.length = 0
  take({ stream, log, gaps: [] })
  await pause(10)
  expect(log).toEqual(times)
})
