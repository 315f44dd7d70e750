import { describe, expect, test } from '@jest/globals'
import {
  type Config,
  createClient,
  type DecodedReport,
  type Stream,
  type StreamOptions,
} from '../../../index.js'
import { closeAfterEach } from '../../support/closing.js'
import { hurry } from '../../support/hurry.js'
import { feedID, type Service, startService } from '../../support/service/service.js'
import { failureOf, until } from '../../support/waiting.js'

const listed = feedID(3, 1)
const custom = feedID(3, 2)
const hidden = feedID(3, 3)
const bad = feedID(3, 4)
const LATEST = '/api/v1/reports/latest'

const closers = closeAfterEach()

/** A service that lists one of the feeds that may be read. */
async function start(
  feeds: readonly string[] = [listed, custom, hidden],
  list: readonly string[] = [listed],
): Promise<Service> {
  const service = await startService({ feeds, signatures: 'dummy' })
  closers.push(() => service.close())
  const body = JSON.stringify({ feeds: list.map(id => ({ feedID: id })) })
  service.fail({ on: 'rest', path: '/api/v1/feeds', answer: 200, body })
  return service
}

function open(
  { apiKey, userSecret, endpoint, wsEndpoint }: Service,
  feedIDs: readonly string[],
  config: Partial<Config> = {},
  options: StreamOptions = {},
): { stream: Stream<DecodedReport>; named: string[][]; errors: Error[] } {
  const keys = { apiKey, userSecret, endpoint, wsEndpoint, retryDelay: 10 }
  const client = createClient({ ...keys, ...config })
  closers.push(() => client.close())
  const stream = client.createStream(feedIDs, { reconnectInterval: 200, ...options })
  const errors: Error[] = []
  const named: string[][] = []
  stream.on('error', error => {
    errors.push(error)
    named.push([...((error as Error & { feedIDs?: readonly string[] }).feedIDs ?? [])])
  })
  return { stream, named, errors }
}

const upgrades = (service: Service): (number | undefined)[] =>
  service.requestsTo('/api/v1/ws').map(({ status }) => status)

const asked = (service: Service): string[] =>
  service.requestsTo(LATEST).map(({ path }) => path.slice(path.indexOf('0x')))

describe('a feed that may be read and is not listed', () => {
  test('stays, where another feed is bad; the bad one is named', async () => {
    const service = await start()
    service.publish(custom)
    const { stream, named } = open(service, [listed, custom, bad, hidden])
    await stream.connect()
    expect(stream.feedIDs).toEqual([listed, custom, hidden])
    expect(named).toEqual([[bad]])
    expect(upgrades(service)).toEqual([401, 101])
    // One feed has a report (200), one has none (404).
    expect(asked(service).sort()).toEqual([custom, hidden, bad].sort())
    const seen: string[] = []
    stream.on('report', ({ feedID: id }) => void seen.push(id))
    service.publish(hidden)
    await until(() => seen.includes(hidden))
  })

  test.each([1, 2])(
    'stays, where %d origins reject and the feeds are asked for once',
    async count => {
      const service = await start()
      const { stream, named } = open(service, [listed, custom, bad], { haMode: count === 2 })
      await stream.connect()
      await until(() => service.open === count)
      expect(stream.feedIDs).toEqual([listed, custom])
      expect(new Set(named.flat())).toEqual(new Set([bad]))
      expect(asked(service).length).toBeLessThanOrEqual(2 * count)
    },
  )

  test('stays, where the list is empty', async () => {
    const service = await start([custom, hidden], [])
    const { stream, named } = open(service, [custom, bad, hidden])
    await stream.connect()
    expect(stream.feedIDs).toEqual([custom, hidden])
    expect(named).toEqual([[bad]])
  })

  test('stays when a right is withdrawn from another', async () => {
    const service = await start()
    const { stream, named } = open(service, [listed, custom, hidden])
    await stream.connect()
    service.feeds.delete(hidden)
    service.origin('001').disconnect()
    await until(() => stream.feedIDs.length === 2 && service.open === 1)
    expect(stream.feedIDs).toEqual([listed, custom])
    expect(named).toEqual([[hidden]])
  })
})

describe('a rejection by mistake', () => {
  test('costs no feed, and the stream connects', async () => {
    const service = await start()
    service.fail({ on: 'upgrade', answer: 401, times: 1 })
    const { stream, errors } = open(service, [listed, custom, hidden])
    await stream.connect()
    expect(stream.feedIDs).toEqual([listed, custom, hidden])
    expect(errors).toEqual([])
    expect(upgrades(service)).toEqual([401, 101])
  })

  test('of a connection that was open before costs no feed', async () => {
    const service = await start()
    const { stream, errors } = open(service, [listed, custom])
    await stream.connect()
    service.fail({ on: 'upgrade', answer: 401, times: 1 })
    service.origin('001').disconnect()
    await until(() => upgrades(service).length === 3 && service.open === 1)
    expect(upgrades(service)).toEqual([101, 401, 101])
    expect(stream.feedIDs).toEqual([listed, custom])
    expect(errors).toEqual([])
  })

  test('that repeats is none: the stream ends with it, and names no feed', async () => {
    const service = await start()
    service.fail({ on: 'upgrade', answer: 401 })
    const { stream, named } = open(service, [listed, custom])
    expect(await failureOf(stream.connect())).toMatchObject({ code: 'AUTHENTICATION', feedIDs: [] })
    expect(stream.feedIDs).toEqual([listed, custom])
    expect(named).toEqual([[]])
    expect(upgrades(service)).toEqual([401, 401])
  })
})

describe('the rejection stands, and no feed is named', () => {
  test.each([
    ['the keys are wrong', {}, { userSecret: 'wrong' }, 3],
    ['every question is refused, and the list is empty', { answer: 401 }, {}, 3],
    ['the service is away', { answer: 503 }, {}, 3 * 4],
    ['the service resets connections', { answer: 'reset' }, {}, 3 * 4],
  ] as const)('where %s', async (_name, fault, config, most) => {
    hurry()
    const service = await start([listed, custom, hidden], [])
    if ('answer' in fault) {
      service.fail({ on: 'rest', path: LATEST, ...fault })
      service.fail({ on: 'upgrade', answer: 401 })
    }
    const { stream, named } = open(service, [custom, hidden, bad], config)
    expect(await failureOf(stream.connect())).toMatchObject({ code: 'AUTHENTICATION', feedIDs: [] })
    expect(stream.feedIDs).toEqual([custom, hidden, bad])
    expect(named).toEqual([[]])
    expect(asked(service).length).toBeLessThanOrEqual(most)
  })
})

test('30 feeds that are not listed are asked for at the rate of the service, each once', async () => {
  const many = Array.from({ length: 30 }, (_, index) => feedID(3, 100 + index))
  const service = await start([listed, ...many])
  // Noted where they are sent: a busy machine receives them later, and closer together.
  const times: number[] = []
  const { stream, named } = open(service, [listed, ...many, bad], {
    fetch: (input, init) => {
      if (String(input).includes(LATEST)) times.push(performance.now())
      return fetch(input, init)
    },
  })
  await stream.connect()
  expect(stream.feedIDs).toEqual([listed, ...many])
  expect(named).toEqual([[bad]])
  expect(service.requestsTo(LATEST)).toHaveLength(31)
  expect(times).toHaveLength(31)
  for (const [index, time] of times.slice(10).entries())
    expect(time - (times[index] as number)).toBeGreaterThan(900)
})
