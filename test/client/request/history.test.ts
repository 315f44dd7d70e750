import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { createClient } from '../../../index.js'
import { failureOf } from '../../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

let engine: DataEngine
beforeEach(async () => {
  engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 60 })
})
afterEach(() => engine.close())

function open(config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  return createClient({ apiKey, userSecret, endpoint, wsEndpoint, retryDelay: 1, ...config })
}
const stored = () => engine.ledger().map(({ observationsTimestamp }) => observationsTimestamp)
const pages = () => engine.requests().filter(({ path }) => path.startsWith('/api/v1/reports/page'))

async function timesOf(
  reports: AsyncIterable<{ readonly observationsTimestamp: number }>,
): Promise<number[]> {
  const times: number[] = []
  for await (const { observationsTimestamp } of reports) times.push(observationsTimestamp)
  return times
}

/** Answers page requests from a list of bodies, the last one again and again. */
function answering(...bodies: unknown[]) {
  let asked = 0
  const fetch = async () => {
    const body = bodies[Math.min(asked++, bodies.length - 1)]
    return new Response(JSON.stringify(body), { status: 200 })
  }
  return { fetch, asked: () => asked }
}

function page(times: readonly number[]) {
  const records = engine.ledger().filter(each => times.includes(each.observationsTimestamp))
  return {
    reports: records.map(({ feedID, fullReport, validFromTimestamp, observationsTimestamp }) => ({
      feedID,
      fullReport,
      validFromTimestamp,
      observationsTimestamp,
    })),
  }
}

describe('the history of a feed', () => {
  test.each([1, 7, 60, 100, undefined])(
    'is given whole and in order in pages of %s',
    async limit => {
      // A report at a time takes long: the client asks no faster than the service allows.
      const times = stored().slice(limit === 1 ? -15 : 0)
      const options = { from: times[0] as number, ...(limit === undefined ? {} : { limit }) }
      expect(await timesOf(open().reports(ethUsd, options))).toEqual(times)
    },
  )

  test.each([26, 29])(
    'includes both ends, and asks for no page behind the one with the last (%s)',
    async last => {
      const times = stored()
      const options = { from: times[10] as number, to: times[last] as number, limit: 10 }
      expect(await timesOf(open().reports(ethUsd, options))).toEqual(times.slice(10, last + 1))
      expect(pages()).toHaveLength(2)
    },
  )

  test('goes on to what was stored while it was read', async () => {
    const times: number[] = []
    for await (const report of open().reports(ethUsd, { from: stored()[50] as number, limit: 5 })) {
      times.push(report.observationsTimestamp)
      if (times.length === 3) engine.publish(ethUsd)
    }
    expect(times).toEqual(stored().slice(50))
  })

  test('no request is made before the first report is asked for, nor after the loop was left', async () => {
    const reports = open().reports(ethUsd, { from: stored()[0] as number, limit: 10 })
    expect(pages()).toHaveLength(0)
    let count = 0
    for await (const _report of reports) if (++count === 15) break
    expect(pages()).toHaveLength(2)
    expect(await reports.next()).toEqual({ done: true, value: undefined })
    expect(pages()).toHaveLength(2)
  })

  test('abort ends it, in the midst of a page too', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const reports = open().reports(ethUsd, { from: stored()[0] as number, limit: 10, signal })
    await reports.next()
    controller.abort(new Error('enough'))
    expect((await failureOf(reports.next())).message).toBe('enough')
    expect(pages()).toHaveLength(1)
    expect(await reports.next()).toMatchObject({ done: true })
  })

  test('closing the client ends it', async () => {
    const client = open()
    const reports = client.reports(ethUsd, { from: stored()[0] as number, limit: 1 })
    await reports.next()
    await client.close()
    expect(await failureOf(reports.next())).toMatchObject({ code: 'CLOSED' })
  })

  test('a service that repeats a page is an error, and no loop', async () => {
    const times = stored()
    const { fetch, asked } = answering(page(times.slice(0, 5)))
    const reading = timesOf(open({ fetch }).reports(ethUsd, { from: times[0] as number }))
    expect(await failureOf(reading)).toMatchObject({ code: 'API_RESPONSE' })
    expect(asked()).toBe(2)
  })

  test('what a page holds twice is given once', async () => {
    const times = stored()
    const { reports } = page(times.slice(0, 3))
    const { fetch } = answering({ reports: [...reports, ...reports] }, { reports: [] })
    expect(await timesOf(open({ fetch }).reports(ethUsd, { from: times[0] as number }))).toEqual(
      times.slice(0, 3),
    )
  })

  test('a page that fails for a while is tried again, and one that fails for good is an error', async () => {
    const times = stored()
    engine.fail({ status: 503 })
    const options = { from: times[0] as number, limit: 20 }
    expect(await timesOf(open().reports(ethUsd, options))).toEqual(times)
    const callOff = engine.fail({ status: 503, times: Number.POSITIVE_INFINITY })
    expect(await failureOf(timesOf(open().reports(ethUsd, options)))).toMatchObject({
      code: 'API_STATUS',
      statusCode: 503,
    })
    callOff()
  })

  test.each([
    [{ from: -1 }, 'from must be at least 0, not -1'],
    [{}, 'from must be a number, not undefined'],
    [{ from: 5, to: 4 }, 'to must not be before from: 4 is before 5'],
    [{ from: 5, limit: 0 }, 'limit must be at least 1, not 0'],
    [{ from: 5, to: 'now' }, 'to must be a number, not string'],
    [undefined, 'from must be a number, not undefined'],
  ])('%j is refused at the call', (options, message) => {
    expect(() => open().reports(ethUsd, options as never)).toThrow(message)
  })
})
