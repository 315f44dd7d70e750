import type { RequestCall, StreamCall } from '../../../client/contract/call.js'
import type { PluginClient } from '../../../client/contract/scope.js'
import { errorFromAnswer, parseRetryAfter } from '../../../client/request/http-error.js'
import { Requests, type RequestsContext } from '../../../client/request/requests.js'
import type { Rest } from '../../../client/rest.js'
import { isStreamsError } from '../../../core/errors.js'
import { createLifetime } from '../../../core/lifetime.js'
import { allDecoders } from '../../../plugins/decoders/versions.js'
import { parseOrigins } from '../../../plugins/ha-discovery/index.js'
import { createDecoderTable } from '../../../report/decoder.js'
import type { Report } from '../../../report/report.js'
import type { Target } from '../../support/fuzz/fuzz.js'
import type { JSONValue } from '../../support/fuzz/json-mutations.js'
import { mutateText } from '../../support/fuzz/mutations.js'
import {
  assert,
  checkTimes,
  encoder,
  json,
  makeJSON,
  now,
  signal,
  text,
} from '../../support/fuzz/target.js'
import { records, sample } from '../samples.js'

const catalogueFeed = {
  feedId: sample.feedID,
  name: 'ETH/USD',
  schemaVersion: 'V3',
  createdAt: '2026-09-30T08:15:00.120000Z',
  expectedDecommissionAt: null,
}

const headers = new Headers({ authorization: 'a-secret-key', 'user-agent': 'sluice' })

/** Answers through the REST operations, without a network. */
export function answers(): readonly Target<string>[] {
  let body = new Uint8Array()
  let status = 200
  let generation = 0
  const context: RequestsContext = {
    endpoint: 'https://api.example',
    handler: async () => ({ kind: 'request', status, headers: new Headers(), body }),
    plugins: [],
    table: createDecoderTable(allDecoders),
    log: {},
    life: createLifetime(),
    timeout: 30_000,
    now,
    // Other credentials for each request, so that no earlier answer stands in for an unreadable one.
    find: <Service>() => ({ generation: generation++ }) as Service,
    clientOf: () => ({}) as PluginClient,
  }
  const rest = new Requests(context, undefined)
  const [first, second, inMilliseconds] = records as [typeof sample, typeof sample, typeof sample]
  const list = (name: string, value: JSONValue, read: (rest: Rest) => Promise<unknown>) =>
    json(name, [value], text => {
      body = encoder.encode(text)
      status = 200
      return read(rest)
    })
  const page = { reports: [{ ...first }, { ...second }] }
  const time = first.observationsTimestamp
  return [
    list('answers: one report', { report: { ...sample } }, each =>
      each.getLatestReport(sample.feedID),
    ),
    list('answers: the catalogue', { feeds: [catalogueFeed] }, each =>
      each.discover({ refresh: true }),
    ),
    list('answers: bulk', { reports: [{ ...first }, { ...inMilliseconds }] }, each =>
      each.getReportsBulk([first.feedID, inMilliseconds.feedID], time),
    ),
    {
      ...json('answers: pages', [page], text => {
        body = encoder.encode(text)
        status = text.length % 16 === 0 ? 206 : 200
        return rest.fetchPage(first.feedID, time, 100, signal)
      }),
      check(result) {
        if (result === undefined) return
        const reports = result as readonly Report[]
        for (const report of reports) checkTimes(report)
        assert(
          reports.every(({ feedID }) => feedID === first.feedID),
          'of the feed',
        )
        const times = reports.map(report => report.observationsTimestamp)
        assert(
          times.every((each, at) => at === 0 || each > (times[at - 1] ?? 0)),
          'ascending, each once',
        )
        assert((times[0] ?? time) >= time, 'none older')
      },
    },
    list(
      'answers: feeds',
      { feeds: [{ feedID: sample.feedID, name: 'ETH/USD', decimals: 18, asset: 'ETH' }] },
      each => each.listFeeds(),
    ),
  ]
}

interface Refused {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
}

const dates = ['Tue, 14 Nov 2023 22:13:20 GMT', 'Tuesday, 14-Nov-23 22:13:20 GMT', '', '0']
const waits = ['5', '120', '0', '-1', '1e3', '9999999999', '99999999999', ...dates]
const refusals: readonly JSONValue[] = [
  { message: 'too many requests', code: 429 },
  { error: 'unauthorized', detail: 'the key a-secret-key is not known' },
  '<html>502 Bad Gateway</html>',
]
const call = { kind: 'request', method: 'GET', url: 'https://api.example/api/v1/feeds', headers }

export const refusal: Target<Refused> = {
  name: 'refusals: status, Date, Retry-After, body',
  isTotal: true,
  make: dice => ({
    status: dice.pick([301, 400, 401, 403, 404, 429, 500, 502, 503, 100 + dice.below(900)]),
    headers: [
      ['retry-after', mutateText(waits, dice)],
      ['date', mutateText(dates, dice)],
    ],
    body: dice.once(3) ? mutateText(['<html>'], dice) : makeJSON(refusals, dice),
  }),
  read({ status, headers: given, body }) {
    const answered = new Headers()
    for (const [name, value] of given) {
      try {
        answered.set(name, value)
      } catch {
        // No header by the platform's rules, so it never comes this far.
      }
    }
    const kind = body.length % 2 === 0 ? 'request' : 'stream'
    const of = { ...call, kind } as unknown as RequestCall | StreamCall
    return errorFromAnswer(of, { status, headers: answered, body: encoder.encode(body) }, now)
  },
  check(result, { status }) {
    assert(isStreamsError(result), 'an error of the library')
    const error = result as Error & { statusCode?: number; retryAfter?: number }
    assert(error.statusCode === status, 'the status')
    assert(error.message.length < 1000, 'a short message')
    assert(/^[\x20-\x7e\n…]*$/.test(error.message), 'a printable message')
    assert(!error.message.includes('a-secret-key'), 'no secret in the message')
    const { retryAfter = 0 } = error
    assert(Number.isFinite(retryAfter) && retryAfter >= 0, 'a wait that is one')
  },
  show: input => JSON.stringify(input),
  sizeOf: ({ body }) => body.length,
}

export const headersRead: readonly Target<string>[] = [
  text(
    'the origins header',
    ['{001,002}', '001,002', '{ 001 , 002 }', '{a,b,c,d,e,f,g,h}'],
    parseOrigins,
    {
      check(result) {
        if (result === undefined) return
        const ids = result as readonly string[]
        assert(ids.length >= 1 && ids.length <= 16, 'between one and sixteen')
        assert(new Set(ids).size === ids.length, 'each once')
        // Each becomes a header itself.
        for (const id of ids) assert(/^[A-Za-z0-9._-]{1,64}$/.test(id), 'a harmless id')
      },
    },
  ),
  text('Retry-After', waits, each => parseRetryAfter(each, now), {
    check(result) {
      if (result === undefined) return
      assert(Number.isFinite(result as number) && (result as number) >= 0, 'a wait that is one')
    },
  }),
]
