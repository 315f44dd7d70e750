import type { IncomingMessage } from 'node:http'

/** One request or upgrade the engine has seen. Holds nothing that authorizes. */
export interface RequestRecord {
  readonly method: string
  /** Path and query as they came. */
  readonly path: string
  /** The value of `X-Cll-Origin`, if it was sent. */
  readonly origin: string | undefined
  /** When it came, in ms of the engine's clock. */
  readonly at: number
  /** The status it was answered with, 101 for an accepted stream; undefined while it is unanswered. */
  readonly status: number | undefined
  /** The number of the stream it opened, from 1; undefined if it opened none. */
  readonly stream: number | undefined
  /** Why it was refused, also where the answer itself doesn't say. */
  readonly reason: string | undefined
}

/** A record that isn't answered yet. */
export type OpenRecord = { -readonly [Key in keyof RequestRecord]: RequestRecord[Key] }

/** The latest requests and upgrades, in the order they came. */
export interface RequestLog {
  readonly open: (request: IncomingMessage, at: number) => OpenRecord
  readonly all: () => RequestRecord[]
}

const keptRecords = 10_000

/** An empty log. */
export function createRequestLog(): RequestLog {
  const records: OpenRecord[] = []

  function open(request: IncomingMessage, at: number): OpenRecord {
    const origin = request.headers['x-cll-origin']
    const record: OpenRecord = {
      method: request.method ?? '',
      path: request.url ?? '',
      origin: typeof origin === 'string' ? origin : undefined,
      at,
      status: undefined,
      stream: undefined,
      reason: undefined,
    }
    records.push(record)
    if (records.length > keptRecords) records.shift()
    return record
  }

  return { open, all: () => records.map(record => ({ ...record })) }
}
