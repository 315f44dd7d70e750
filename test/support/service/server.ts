// Handles each request: records it, routes it to an origin, fails it, authenticates it, answers it.
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocketServer } from 'ws'
import { refusalOf } from './authentication.js'
import type { Fault, FaultPlace, Faults } from './faults.js'
import type { Handlers } from './listener.js'
import type { OriginInside, RequestRecord } from './origin.js'
import {
  type Answer,
  answerRequest,
  failure,
  feedIDsOf,
  isPublic,
  type Resources,
  refusedFeeds,
} from './rest.js'

export interface Situation extends Resources {
  readonly origins: ReadonlyMap<string, OriginInside>
  readonly faults: Faults
  /** API keys and their secrets. */
  readonly keys: ReadonlyMap<string, string>
  readonly requests: RequestRecord[]
  maxConnections: number
  availableOrigins: string | undefined
  readonly deflate: boolean
  /** The most connections that were open at once, of all origins. */
  mostOpen: number
  now(): number
  readonly dateError: number | undefined
  /** What makes answers wrong. */
  readonly changes: AnswerChange[]
  readonly answersPings: boolean
}

/** Makes what is answered to a request of what should be; 101 stands for a stream that opens. */
export type AnswerChange = (request: RequestRecord, answer: Answer) => Answer

/** One request or upgrade, and the ways to answer it. */
interface Exchange {
  readonly record: RequestRecord
  readonly origin: OriginInside
  answer(answer: Answer, headers?: Readonly<Record<string, string>>): void
  reset(): void
}

export function makeHandlers(situation: Situation, pinned?: string): Handlers {
  const webSockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: situation.deflate,
    autoPong: situation.answersPings,
    maxPayload: 1 << 16,
  })
  webSockets.on('headers', lines => {
    for (const [name, value] of Object.entries(commonHeaders(situation)))
      lines.push(`${name}: ${value}`)
  })

  function begin(request: IncomingMessage, upgrade: boolean): [RequestRecord, OriginInside] {
    const asked = pinned ?? request.headers['x-cll-origin']
    const origin = route(situation.origins, asked)
    const record: RequestRecord = {
      at: situation.now(),
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      upgrade,
      origin: origin.name,
      status: undefined,
    }
    situation.requests.push(record)
    origin.requests.push(record)
    return [record, origin]
  }

  return {
    request(request, response) {
      const [record, origin] = begin(request, false)
      const exchange: Exchange = {
        record,
        origin,
        answer(answer, headers) {
          const { status, body, headers: own } = changed(situation, record, answer)
          record.status = status
          response.sendDate = false
          const length = Buffer.byteLength(body)
          response.writeHead(status, {
            'Content-Type': 'application/json',
            'Content-Length': length,
            ...commonHeaders(situation),
            ...own,
            ...headers,
          })
          response.end(body)
        },
        reset: () => reset(record, request.socket),
      }
      const place = record.method === 'HEAD' && record.path === '/' ? 'discovery' : 'rest'
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        meet(situation, exchange, place, () =>
          exchange.answer(
            refused(situation, record, body) ??
              (place === 'discovery'
                ? { status: 200, body: '' }
                : answerRequest(record.method, urlOf(record), situation)),
          ),
        )
      })
    },

    upgrade(request, socket, head) {
      const [record, origin] = begin(request, true)
      const exchange: Exchange = {
        record,
        origin,
        answer(answer, headers) {
          record.status = answer.status
          socket.end(rawAnswer(answer, { ...commonHeaders(situation), ...headers }))
        },
        reset: () => reset(record, socket),
      }
      meet(situation, exchange, 'upgrade', () => {
        const url = urlOf(record)
        const feeds = feedIDsOf(url.searchParams)
        const refusal =
          refused(situation, record, '') ??
          (url.pathname === '/api/v1/ws' ? undefined : failure(404, 'no such path')) ??
          refusedFeeds(feeds, situation.feeds) ??
          tooMany(situation, origin, record)
        const { status, body } = changed(situation, record, refusal ?? { status: 101, body: '' })
        if (status !== 101) return exchange.answer({ status, body })
        webSockets.handleUpgrade(request, socket, head, webSocket => {
          record.status = 101
          origin.admit({
            request: record,
            feeds: new Set(feeds.map(id => id.toLowerCase())),
            webSocket,
            socket,
            state: 'live',
            pings: 0,
            closed: undefined,
          })
          situation.mostOpen = Math.max(situation.mostOpen, openConnections(situation.origins))
        })
      })
    },
  }
}

const changed = ({ changes }: Situation, record: RequestRecord, answer: Answer): Answer =>
  changes.reduce((before, change) => change(record, before), answer)

export const openConnections = (origins: ReadonlyMap<string, OriginInside>): number =>
  [...origins.values()].reduce((sum, { open }) => sum + open, 0)

const urlOf = ({ path }: RequestRecord): URL => new URL(path, 'http://service')

const commonHeaders = ({
  now,
  dateError,
  availableOrigins,
}: Situation): Record<string, string> => ({
  ...(dateError === undefined ? {} : { Date: new Date(now() + dateError).toUTCString() }),
  ...(availableOrigins === undefined ? {} : { 'X-Cll-Available-Origins': availableOrigins }),
})

/** The origin asked for; in place of an unknown one, or one dead in that way, the first alive. */
function route(
  origins: ReadonlyMap<string, OriginInside>,
  asked: string | string[] | undefined,
): OriginInside {
  const named = typeof asked === 'string' ? origins.get(asked) : undefined
  if (named !== undefined && named.death !== 'elsewhere') return named
  const all = [...origins.values()]
  return all.find(({ death }) => death === undefined) ?? named ?? (all[0] as OriginInside)
}

function meet(situation: Situation, exchange: Exchange, on: FaultPlace, usual: () => void): void {
  const { record, origin } = exchange
  const fault = deathFault(origin) ?? situation.faults.take(on, urlOf(record).pathname, origin.name)
  const { answer = 'usual', headers = {}, body, delay = 0 } = fault ?? {}
  const act = (): void => {
    if (answer === 'usual') usual()
    else if (answer === 'reset') exchange.reset()
    else if (answer !== 'hang') {
      const failed = failure(answer, 'fault')
      exchange.answer({ ...failed, body: body ?? failed.body }, headers)
    }
  }
  if (delay > 0) setTimeout(act, delay).unref()
  else act()
}

function deathFault({ death }: OriginInside): Fault | undefined {
  if (death === undefined) return undefined
  return { on: 'rest', answer: death === 'refuse' ? 503 : 'reset' }
}

function refused(
  { keys, now }: Situation,
  { method, path, headers }: RequestRecord,
  body: string,
): Answer | undefined {
  if (isPublic(path) && headers.authorization === undefined) return undefined
  const refusal = refusalOf({ method, path, body }, headers, keys, now())
  return refusal && failure(refusal.status, refusal.message)
}

function tooMany(
  { origins, maxConnections }: Situation,
  origin: OriginInside,
  record: RequestRecord,
): Answer | undefined {
  const key = record.headers.authorization
  let open = 0
  for (const { connections } of origins.values())
    open += connections.filter(({ request }) => request.headers.authorization === key).length
  return open >= maxConnections || origin.open >= origin.maxConnections
    ? failure(429, 'too many connections')
    : undefined
}

function reset(record: RequestRecord, socket: Socket): void {
  record.status = 0
  socket.resetAndDestroy()
}

function rawAnswer({ status, body }: Answer, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries({
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n${lines.join('')}\r\n${body}`
}
