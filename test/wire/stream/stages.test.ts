// What a plugin's scope does with reports that stages pass on later, and when a loop has dealt with a report.
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import type { StreamScope } from '../../../client/contract/scope.js'
import { sleep } from '../../../core/async.js'
import { createClient, hmacAuth, type Plugin, type Stream } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { failOnUnhandled } from '../../support/closing.js'
import { feedID, type Service, startService } from '../../support/service/service.js'
import { failureOf, until } from '../../support/waiting.js'

const feed = feedID(3, 1, { milliseconds: true })
const { signal } = new AbortController()
let service: Service
const closers: (() => Promise<void>)[] = []
failOnUnhandled()
beforeAll(async () => {
  service = await startService({ feeds: [feed], signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})
afterAll(() => service.close())

function open(...plugins: readonly Plugin<never>[]): Stream {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const stack = [...plugins, hmacAuth({ apiKey, userSecret })]
  const client = createClient({ endpoint, wsEndpoint, plugins: stack })
  closers.push(() => client.close())
  return client.createStream(feed)
}

/** A plugin with one stage. */
function stage(name: string, make: (next: Sink, scope: StreamScope) => Sink): Plugin<never> {
  return {
    name,
    report: (next, scope) => (scope.kind === 'stream' ? make(next, scope) : next),
  }
}

const later = (name: string, ms: number): Plugin<never> =>
  stage(name, (next, scope) => report => {
    scope.waitUntil(
      sleep(ms, signal).then(() => next(report)),
      report,
    )
  })

/** A stream with these stages, its scope, and a fetched report that is not injected yet. */
async function inject(...plugins: readonly Plugin<never>[]) {
  let scope: StreamScope | undefined
  const look = stage('look', (next, made) => {
    scope = made
    return next
  })
  const stream = open(...plugins, look)
  const passed: number[] = []
  const errors: Error[] = []
  stream.on('report', report => void passed.push(report.observationsTimestamp))
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  const { observed } = service.publish(feed)
  await until(() => passed.length + errors.length > 0 || plugins.length === 0)
  passed.length = 0
  errors.length = 0
  const [report] = (await scope?.client.fetchPage(feed, observed, 1, signal)) ?? []
  if (scope === undefined || report === undefined) throw new Error('nothing was fetched')
  return { scope, report, passed, errors }
}

describe('inject', () => {
  test('settles when the last of several stages has passed the report on, each later', async () => {
    const { scope, report, passed } = await inject(later('a', 10), later('b', 20), later('c', 5))
    await scope.inject(report)
    expect(passed).toEqual([report.observationsTimestamp])
  })

  test('rejects with the error of a stage that is reached late', async () => {
    const refuse = stage('refuse', (next, scope) => report => {
      if (report.source === 'live') next(report)
      else scope.waitUntil(Promise.reject(new Error('no')), report)
    })
    const { scope, report, passed } = await inject(refuse, later('a', 5), later('b', 5))
    expect((await failureOf(scope.inject(report))).message).toBe('no')
    expect(passed).toEqual([])
  })

  test('makes what a stage throws an error of the stream', async () => {
    const broken = stage('broken', next => report => {
      if (report.source === 'live') next(report)
      else throw new Error('bug')
    })
    const { scope, report, errors } = await inject(broken)
    await scope.inject(report)
    expect(errors).toMatchObject([{ code: 'PLUGIN', message: expect.stringContaining('bug') }])
  })

  test('does not wait for work on a report that is not injected', async () => {
    const { scope, report, passed } = await inject(later('a', 5))
    scope.waitUntil(Promise.reject(new Error('no')), { ...report } as Report)
    await scope.inject(report)
    expect(passed).toEqual([report.observationsTimestamp])
  })
})

describe('a report that a loop has', () => {
  /** A stream with three reports in its queue, and the times of those that count as acknowledged. */
  async function queued() {
    const acknowledged: number[] = []
    const note: Plugin<never> = {
      name: 'note',
      acknowledged: report => void acknowledged.push(report.observationsTimestamp),
    }
    const stream = open(note)
    await stream.connect()
    const times = [1, 2, 3].map(() => service.publish(feed).observed)
    await until(() => stream.getMetrics().queued === 3)
    return { stream, acknowledged, times }
  }

  test('is not acknowledged when the loop is left with it, as those before it are', async () => {
    const { stream, acknowledged, times } = await queued()
    for await (const report of stream) if (report.observationsTimestamp === times[1]) break
    expect(acknowledged).toEqual([times[0]])
    expect(stream.getMetrics().queued).toBe(0)
  })

  test('is not acknowledged when the body throws, so that it comes again', async () => {
    const { stream, acknowledged } = await queued()
    const loop = (async () => {
      for await (const _ of stream) throw new Error('mine')
    })()
    expect((await failureOf(loop)).message).toBe('mine')
    expect(acknowledged).toEqual([])
  })

  test('is not acknowledged when the iterator is told to throw', async () => {
    const { stream, acknowledged } = await queued()
    const iterator = stream[Symbol.asyncIterator]()
    await iterator.next()
    expect((await failureOf(iterator.throw?.(new Error('mine')) as Promise<unknown>)).message).toBe(
      'mine',
    )
    expect(acknowledged).toEqual([])
  })
})
