import { describe, expect, test } from '@jest/globals'
import {
  createClient,
  decoders,
  dedup,
  type Gap,
  hmacAuth,
  type RetryOptions,
  retry,
  type Status,
  type StreamOptions,
  v3,
} from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

const [a, b] = [1, 2].map(n => feedID(3, n, { milliseconds: true })) as [string, string]
const closers = closeAfterEach()

async function start(): Promise<Service> {
  const service = await startService({ feeds: [a, b], origins: ['001'], signatures: 'dummy' })
  closers.push(() => service.close())
  return service
}

/** A stream of feed a, and what came of it. */
async function open(service: Service, options: StreamOptions = {}, retrying: RetryOptions = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [decoders(v3), dedup(), retry(retrying), hmacAuth({ apiKey, userSecret })],
  })
  closers.push(() => client.close())
  const stream = client.createStream(a, { reconnectInterval: 200, ...options })
  const errors: Error[] = []
  const statuses: Status[] = []
  const gaps: Gap[] = []
  const times: number[] = []
  stream.on('error', error => void errors.push(error))
  stream.on('status', status => void statuses.push(status))
  stream.on('gap', gap => void gaps.push(gap))
  stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
  stream.closed.catch(() => undefined)
  await stream.connect()
  return { stream, errors, statuses, gaps, times }
}

/** How many messages the errors stand for. */
const refusals = (errors: readonly Error[]) =>
  errors.reduce((sum, { message }) => {
    const most = message.includes('was dropped') ? 0 : 1
    return sum + Number(/(\d+) more/.exec(message)?.[1] ?? most)
  }, 0)

describe('a connection that brings junk', () => {
  test('is dropped and opened anew, with one error that counts the rest', async () => {
    const service = await start()
    const { stream, errors, statuses, times } = await open(service)
    service.junk(10_000)
    await until(() => service.origin('001').upgrades.length === 2 && service.open === 1)
    expect(errors.length).toBeLessThanOrEqual(17)
    expect(errors.at(-1)).toMatchObject({
      code: 'WS_FRAME',
      message: expect.stringMatching(/was dropped: 16 messages in a row were no reports/),
    })
    const { malformed } = stream.getMetrics()
    expect(malformed).toBe(refusals(errors))
    expect(statuses.filter(({ type }) => type === 'disconnected')).toMatchObject([
      { error: { code: 'WS_FRAME' } },
    ])
    await until(() => stream.getMetrics().activeConnections === 1)
    const { observed } = service.publish(a)
    await until(() => times.length === 1)
    expect(times).toEqual([observed])
  })

  test.each([
    ['at once', 0],
    ['after it has sent nothing for as long as counts as healthy', 60],
  ])('%s has the stream give up after its attempts', async (_name, staleMs) => {
    const service = await start()
    const { stream, errors } = await open(
      service,
      { maxReconnectAttempts: 2 },
      { healthyAfter: 30, maxDelay: 100 },
    )
    let isOver = false
    const closed = failureOf(stream.closed).finally(() => {
      isOver = true
    })
    let upgrades = 0
    while (!isOver) {
      if (service.open === 1 && service.origin('001').upgrades.length > upgrades) {
        upgrades++
        await pause(staleMs)
        service.junk(100)
      }
      await pause(2)
    }
    expect(await closed).toMatchObject({ code: 'WS_GAVE_UP', cause: { code: 'WS_FRAME' } })
    expect(service.origin('001').upgrades).toHaveLength(3)
    expect(errors.length).toBeLessThanOrEqual(3 * 17 + 1)
  })

  test('has its attempts again once it has brought reports for a while', async () => {
    const service = await start()
    const { stream, statuses } = await open(
      service,
      { maxReconnectAttempts: 1 },
      { healthyAfter: 30, maxDelay: 50 },
    )
    for (let round = 1; round <= 3; round++) {
      await until(() => service.open === 1 && stream.getMetrics().activeConnections === 1)
      await pause(50)
      service.publish(a)
      service.junk(16)
      await until(() => service.origin('001').upgrades.length === round + 1)
    }
    const attempts = statuses.flatMap(each => (each.type === 'reconnecting' ? each.attempt : []))
    expect(attempts).toEqual([1, 1, 1])
  })

  test('is kept while reports come between, and its errors are bounded all the same', async () => {
    const service = await start()
    const { stream, errors, times } = await open(service)
    for (let count = 0; count < 500; count++) {
      service.publish(a)
      service.junk(4)
    }
    await until(() => times.length === 500)
    await until(() => refusals(errors) === 2000)
    expect(stream.getMetrics()).toMatchObject({ malformed: 2000, fullReconnects: 0 })
    expect(service.origin('001').upgrades).toHaveLength(1)
    expect(errors.length).toBeLessThanOrEqual(3 * 17)
    await stream.close()
  })

  test('is not dropped for reports of other feeds, of versions unknown, or that contradict themselves', async () => {
    const service = await start()
    const { stream, errors, times } = await open(service)
    const of = (id: string, envelope = {}) =>
      JSON.stringify({ report: { ...JSON.parse(service.skip(id, { envelope }).json) } })
    const other = of(b)
    const contradictory = of(a, { observationsTimestamp: 1 })
    service.sendFrame(other, 40)
    service.sendFrame(contradictory, 40)
    const { observed } = service.publish(a)
    await until(() => times.length === 1)
    expect(times).toEqual([observed])
    expect(stream.getMetrics()).toMatchObject({ malformed: 80, activeConnections: 1 })
    expect(errors).toHaveLength(16)
    expect(service.origin('001').upgrades).toHaveLength(1)
    await until(() => errors.length === 17)
    expect(refusals(errors)).toBe(80)
  })
})
