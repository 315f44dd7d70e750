import { afterEach, beforeEach, jest } from '@jest/globals'
import { connectionFacts, type Reply, type StreamCall } from '../../../client/contract/call.js'
import type { Handler } from '../../../client/contract/plugin.js'
import type { Connections, RequestScope, StreamScope } from '../../../client/contract/scope.js'
import { createCounters } from '../../../client/metrics.js'
import { Registry } from '../../../client/stream/connection/connections.js'
import { APIError, type Call, retry, type Status, WebSocketError } from '../../../index.js'

beforeEach(() => void jest.useFakeTimers())

afterEach(() => void jest.useRealTimers())

export function requestCall(signal: AbortSignal = new AbortController().signal): Call {
  return {
    kind: 'request',
    operation: 'listFeeds',
    purpose: 'user',
    parent: undefined,
    method: 'GET',
    url: 'https://api.example/x',
    headers: new Headers(),
    signal,
    scope: { kind: 'request', log: {}, feedIDs: [], signal } as unknown as RequestScope,
  }
}

export interface StreamUnderTest {
  call: StreamCall
  controller: AbortController
  statuses: Status[]
  /** Other connections of the stream. */
  siblings: { watchers: number; become(open: number): void }
}

const sibling = { origin: 'wss://other.example', host: 'other.example' }

export function streamCall(
  reconnect: { maxReconnectAttempts?: number; reconnectInterval?: number } = {},
): StreamUnderTest {
  const controller = new AbortController()
  const { signal } = controller
  const statuses: Status[] = []
  const registry = new Registry({
    counters: createCounters(),
    log: {},
    now: Date.now,
    nextID: () => 'conn',
    onChange: () => undefined,
  })
  const error = new WebSocketError('closed')
  const siblings = {
    watchers: 0,
    become(open: number): void {
      while ((registry.of(sibling.origin)?.open ?? 0) < open)
        registry.change({ type: 'connected', ...sibling })
      while ((registry.of(sibling.origin)?.open ?? 0) > open)
        registry.change({ type: 'disconnected', wasOpen: true, error, ...sibling })
    },
  }
  const connections: Connections = {
    get open() {
      return registry.open
    },
    uncovered: [],
    get carried() {
      return registry.carried
    },
    of: registry.of,
    reset: () => undefined,
    watch(listener) {
      const unwatch = registry.watch(listener)
      siblings.watchers++
      return () => {
        siblings.watchers--
        unwatch()
      }
    },
  }
  const scope = {
    kind: 'stream',
    log: {},
    feedIDs: [],
    signal,
    connections,
    events: {
      emit(event: string, status: Status) {
        if (event !== 'status') return
        statuses.push(status)
        if ('origin' in status) registry.change(status)
      },
    },
  } as unknown as StreamScope
  const url = 'wss://ws.example/x'
  const call: StreamCall = {
    kind: 'stream',
    operation: 'stream',
    purpose: 'user',
    method: 'GET',
    url,
    urls: [url],
    headers: new Headers(),
    connectTimeout: 5000,
    reconnect: { maxReconnectAttempts: 5, reconnectInterval: 1000, ...reconnect },
    signal,
    scope,
    open: () => Promise.reject(new Error('the wire of this call is `opened`')),
  }
  opened.set(call, lasted => {
    const facts = connectionFacts(call)
    registry.change({ type: 'connected', ...facts })
    registry.change({ type: 'disconnected', wasOpen: true, error, ...facts })
    return { kind: 'stream', ended: Promise.resolve({ lasted, error }) }
  })
  return { call, controller, statuses, siblings }
}

/** Opens the connection of a call and ends it at once, with the given duration. */
const opened = new WeakMap<Call, (lasted: number) => Reply>()

export interface Run {
  attempts: number[]
  result: { value?: unknown; error?: unknown }
  done: Promise<undefined>
}

/** A connection that opens and lasts for that many milliseconds. */
interface Connection {
  readonly lasted: number
}

/** Runs a call through retry; `attempts` are their times, `result` is how the call ended. */
export function run(
  call: Call,
  outcomes: (Reply | Connection | Error)[],
  options: Parameters<typeof retry>[0] = {},
): Run {
  const attempts: number[] = []
  const started = performance.now()
  const wire: Handler = async () => {
    attempts.push(Math.round(performance.now() - started))
    const outcome = outcomes[Math.min(attempts.length, outcomes.length) - 1] as (typeof outcomes)[0]
    if (outcome instanceof Error) throw outcome
    return 'lasted' in outcome ? (opened.get(call)?.(outcome.lasted) as Reply) : outcome
  }
  const handler = retry({ random: () => 1, ...options }).call?.(wire) as Handler
  const result: { value?: unknown; error?: unknown } = {}
  const done = handler(call).then(
    async value => {
      if (value.kind === 'request') result.value = value
      else result.error = (await value.ended).error
    },
    error => void Object.assign(result, { error }),
  ) as Promise<undefined>
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

export const ended = (lasted: number): Connection => ({ lasted })

export const refused: WebSocketError = new WebSocketError('x', { code: 'WS_CONNECT' })
