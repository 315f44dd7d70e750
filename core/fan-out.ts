import { connectionFacts } from './connection.js'
import {
  asError,
  InsufficientConnectionsError,
  MultiConnectionError,
  PartialConnectionFailureError,
} from './errors.js'
import { createLifetime, type Lifetime } from './lifetime.js'
import { onAbort } from './on-abort.js'
import { sleep } from './sleep.js'
import type { Handler, StreamCall } from './types.js'

/** Several connections that carry one stream, each a call of its own with its own retry. */
export interface FanOut {
  /** The origins that have a connection, or are trying to. */
  readonly origins: readonly string[]
  /** Those of them whose connection is open. */
  readonly open: ReadonlySet<string>
  /** Starts a connection after a while, unless its origin has one. */
  join(call: StreamCall, delayMs: number): void
  /** Ends the connection of an origin. */
  leave(origin: string): void
  /** Rejects with MultiConnectionError when the last connection has ended for good. */
  readonly ended: Promise<never>
}

/** Below this, the loss of one more connection is the loss of the stream. */
const REQUIRED = 2

/**
 * Carries a stream over connections that come and go, and announces when they are fewer than they should be: once when
 * one can't be had any more, and once when less than two are left. All end with `call.signal`.
 */
export function createFanOut(next: Handler, { scope, signal }: StreamCall): FanOut {
  const branches = new Map<string, Lifetime>()
  const failures = new Map<string, Error>()
  const open = new Set<string>()
  /** Origins that can't be had, and whether that has been announced. */
  const failing = new Map<string, boolean>()
  let isThin = false
  let fail: (error: Error) => void
  const ended = new Promise<never>((_resolve, reject) => {
    fail = reject
  })

  const unwatch = scope.watch(function keepAccount(status) {
    if (!('origin' in status) || status.type === 'connecting' || status.type === 'reconnecting')
      return
    const { origin } = status
    open.delete(origin)
    if (status.type === 'connected') open.add(origin)
    // A connection that was open and ended is dialled again at once; only when that fails is it missing.
    const isMissing = status.type === 'disconnected' && !status.wasOpen && branches.has(origin)
    if (!isMissing) failing.delete(origin)
    else if (!failing.has(origin)) failing.set(origin, false)
    announce()
  })
  scope.defer(unwatch)
  onAbort(signal, () => {
    if (branches.size === 0) fail(asError(signal.reason))
  })

  function announce(): void {
    if (open.size >= REQUIRED) isThin = false
    if (open.size === 0 || open.size + failing.size < branches.size) return
    const of = `${open.size} of ${branches.size} connections`
    if ([...failing.values()].includes(false)) {
      for (const origin of failing.keys()) failing.set(origin, true)
      const counts = { failedConnections: failing.size, totalConnections: branches.size }
      scope.fail(
        new PartialConnectionFailureError(
          `${of} are open; failing: ${[...failing.keys()].join(', ')}`,
          counts,
        ),
      )
    }
    if (open.size < REQUIRED && failing.size > 0 && !isThin) {
      isThin = true
      const counts = { availableConnections: open.size, requiredConnections: REQUIRED }
      scope.fail(
        new InsufficientConnectionsError(
          `${of} are open, less than ${REQUIRED}: there is no redundancy`,
          counts,
        ),
      )
    }
  }

  async function run(
    origin: string,
    call: StreamCall,
    life: Lifetime,
    delayMs: number,
  ): Promise<void> {
    let failure: Error
    try {
      await sleep(delayMs, life.signal)
      const reply = await next({ ...call, signal: life.signal })
      failure =
        reply.kind === 'stream'
          ? reply.error
          : new Error('a plugin answered with the reply of a request')
    } catch (thrown) {
      failure = asError(thrown)
    }
    const hasLeft = branches.get(origin) !== life
    life.end()
    if (hasLeft) {
      const { host } = connectionFacts(call)
      if (!branches.has(origin)) scope.status({ type: 'left', origin, host })
      return
    }
    branches.delete(origin)
    failures.set(origin, failure)
    if (branches.size > 0) return
    unwatch()
    const causes = [...failures].map(([name, error]) => `${name}: ${error.message}`)
    fail(
      new MultiConnectionError(`all connections failed\n  ${causes.join('\n  ')}`, {
        errors: [...failures.values()],
      }),
    )
  }

  return {
    get origins() {
      return [...branches.keys()]
    },
    open,
    join(call, delayMs) {
      const { origin } = connectionFacts(call)
      if (branches.has(origin) || signal.aborted) return
      const life = createLifetime(signal)
      failures.delete(origin)
      branches.set(origin, life)
      void run(origin, call, life, delayMs)
    },
    leave(origin) {
      const life = branches.get(origin)
      branches.delete(origin)
      life?.end(new Error(`origin ${origin} is no longer offered`))
    },
    ended,
  }
}
