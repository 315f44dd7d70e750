import type { IncomingMessage } from 'node:http'

/** One request or upgrade, without its authorization headers. */
export interface RequestRecord {
  /** Upper case: `GET`. */
  readonly method: string
  /** Path and query as received. */
  readonly path: string
  /** The value of `X-Cll-Origin`, if it was sent. */
  readonly origin: string | undefined
  /** When it was received, in ms of the engine's clock. */
  readonly at: number
  /** The status of its answer, 101 for an accepted stream; undefined while it is unanswered. */
  readonly status: number | undefined
  /** The number of the stream it opened, from 1; undefined if it opened none. */
  readonly stream: number | undefined
  /** Why it was rejected, even if the answer does not say so. */
  readonly reason: string | undefined
}

/** A record whose answer is pending. */
export type OpenRecord = { -readonly [Key in keyof RequestRecord]: RequestRecord[Key] }

/** The latest requests and upgrades, in order. */
export interface RequestLog {
  readonly open: (request: IncomingMessage, at: number) => OpenRecord
  readonly all: () => RequestRecord[]
}

const maxRecords = 10_000

/** An empty log. */
export function createRequestLog(): RequestLog {
  const records: OpenRecord[] = []

  return {
    open({ method = '', url: path = '', headers }, at) {
      const name = headers['x-cll-origin']
      const origin = typeof name === 'string' ? name : undefined
      const pending = { status: undefined, stream: undefined, reason: undefined }
      const record: OpenRecord = { method, path, origin, at, ...pending }
      records.push(record)
      if (records.length > maxRecords) records.shift()
      return record
    },
    all: () => records.map(record => ({ ...record })),
  }
}
