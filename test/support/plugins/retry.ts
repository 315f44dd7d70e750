import { afterEach, beforeEach, jest } from '@jest/globals'
import type { Reply, StreamCall } from '../../../client/call.js'
import type { Handler } from '../../../client/plugin.js'
import type { StreamScope } from '../../../client/scope.js'
import { APIError, type Call, retry, type Status, WebSocketError } from '../../../index.js'

beforeEach(() => void jest.useFakeTimers())

afterEach(() => void jest.useRealTimers())

const scopeFacts = {
  log: {},
  feedIDs: [],
  verifier: undefined,
  defer: () => undefined,
  wait: () => undefined,
  fail: () => undefined,
}

export function requestCall(signal: AbortSignal = new AbortController().signal): Call {
  return {
    kind: 'request',
    operation: 'listFeeds',
    method: 'GET',
    url: 'https://api.example/x',
    headers: new Headers(),
    signal,
    scope: { ...scopeFacts, kind: 'request', signal },
  }
}

export interface StreamUnderTest {
  call: StreamCall
  controller: AbortController
  statuses: Status[]
  company: { open: number; watchers: Set<(status: Status) => void>; become(open: number): void }
}

export function streamCall(
  reconnect: { maxReconnectAttempts?: number; reconnectInterval?: number } = {},
): StreamUnderTest {
  const controller = new AbortController()
  const { signal } = controller
  const statuses: Status[] = []
  const company = {
    open: 0,
    watchers: new Set<(status: Status) => void>(),
    become(open: number): void {
      company.open = open
      for (const watcher of company.watchers) watcher({} as Status)
    },
  }
  const scope: StreamScope = {
    ...scopeFacts,
    kind: 'stream',
    signal,
    uncovered: [],
    cursors: new Map(),
    fetchPage: async () => [],
    listFeeds: async () => [],
    receive: () => undefined,
    room: async () => undefined,
    hold: () => ({ leaks: false, release: () => undefined }),
    judge: undefined,
    appoint: () => undefined,
    gap: () => undefined,
    vacant: () => undefined,
    reconnect: { maxReconnectAttempts: 5, reconnectInterval: 1000, ...reconnect },
    urls: [],
    get activeConnections() {
      return company.open
    },
    count: () => undefined,
    watch(listener) {
      company.watchers.add(listener)
      return () => void company.watchers.delete(listener)
    },
    conflict: () => undefined,
    deny: () => undefined,
    beforeFailure: () => undefined,
    now: Date.now,
    status: status => void statuses.push(status),
    open: () => Promise.reject(new Error('unused')),
  }
  const url = 'wss://ws.example/x'
  const call: Call = {
    kind: 'stream',
    operation: 'stream',
    method: 'GET',
    url,
    headers: new Headers(),
    signal,
    scope,
  }
  return { call, controller, statuses, company }
}

export interface Run {
  attempts: number[]
  result: { value?: unknown; error?: unknown }
  done: Promise<undefined>
}

/** Runs a call through retry; when each attempt was made, and what came of it in the end. */
export function run(
  call: Call,
  outcomes: (Reply | Error)[],
  options: Parameters<typeof retry>[0] = {},
): Run {
  const attempts: number[] = []
  const started = performance.now()
  const wire: Handler = async () => {
    attempts.push(Math.round(performance.now() - started))
    const outcome = outcomes[Math.min(attempts.length, outcomes.length) - 1] as Reply | Error
    if (outcome instanceof Error) throw outcome
    return outcome
  }
  const handler = retry({ random: () => 1, ...options }).call?.(wire) as Handler
  const result: { value?: unknown; error?: unknown } = {}
  const done = handler(call).then(
    value => void Object.assign(result, { value }),
    error => void Object.assign(result, { error }),
  )
  return { attempts, result, done }
}

export const ok: Reply = {
  kind: 'request',
  status: 200,
  headers: new Headers(),
  body: new Uint8Array(),
}

export const status = (statusCode: number, retryAfter?: number): APIError =>
  new APIError('x', { statusCode, retryAfter })

export const ended = (lasted: number): Reply => ({
  kind: 'stream',
  lasted,
  error: new WebSocketError('closed'),
})

export const refused: WebSocketError = new WebSocketError('x', { code: 'WS_CONNECT' })
