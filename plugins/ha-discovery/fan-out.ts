import {
  connectionFacts,
  rejectedFeeds,
  type StreamCall,
  type StreamEnd,
  type StreamReply,
} from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { ConnectionFacts, ConnectionState } from '../../client/contract/status.js'
import { createDeferred, onAbort, sleep } from '../../core/async.js'
import { asError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'
import {
  InsufficientConnectionsError,
  MultiConnectionError,
  PartialConnectionFailureError,
} from './errors.js'

/** Several connections that carry one stream. Each is a call of its own with its own retry. */
export interface FanOut {
  /** The origins that have joined and not left. */
  readonly origins: readonly string[]
  /**
   * Starts a connection after a delay, unless the origin already has a connection that has not
   * ended.
   */
  join(call: StreamCall, delayMs: number): void
  /** Ends the connection of an origin. */
  leave(origin: string): void
  /** Resolves once a connection is open. Rejects if all connections end for good before that. */
  readonly opened: Promise<StreamReply>
  /** Resolves when all connections have ended. */
  readonly ended: Promise<StreamEnd>
}

/** With fewer connections than this, the next loss stops the stream. */
const REQUIRED = 2

/** The call to one origin. */
interface Branch {
  readonly facts: ConnectionFacts
  readonly life: Lifetime
  hasEnded: boolean
  failure: Error | undefined
}

/**
 * Carries a stream over several connections that can join and leave. All of them end when
 * `call.signal` aborts.
 */
export function createFanOut(next: Handler, { scope, signal }: StreamCall): FanOut {
  const { events } = scope
  const branches = new Map<string, Branch>()
  const redundancy = watchRedundancy(scope, branches)
  const opened = createDeferred<StreamReply>()
  const ended = createDeferred<StreamEnd>()
  onAbort(signal, () => {
    if (isOver()) end(asError(signal.reason))
  })

  function isOver(): boolean {
    return [...branches.values()].every(branch => branch.hasEnded)
  }

  function end(error: Error): void {
    opened.reject(error)
    ended.resolve({ lasted: 0, error })
  }

  async function run(call: StreamCall, branch: Branch, delayMs: number): Promise<void> {
    const { life, facts } = branch
    const { origin } = facts
    try {
      await sleep(delayMs, life.signal)
      const reply = (await next({ ...call, signal: life.signal })) as StreamReply
      opened.resolve({ kind: 'stream', ended: ended.promise })
      branch.failure = (await reply.ended).error
    } catch (thrown) {
      branch.failure = asError(thrown)
    }
    life.end()
    if (branches.get(origin) !== branch) {
      if (!branches.has(origin)) events.emit('status', { type: 'left', ...facts })
      return
    }
    branch.hasEnded = true
    const error = asError(branch.failure)
    // The feeds caused the error and not the origin. The other connections continue until another
    // call has taken over.
    if (rejectedFeeds(error).length > 0) return end(error)
    if (!signal.aborted) events.emit('status', { type: 'failed', error, ...facts })
    if (isOver()) end(allFailed(branches))
  }

  return {
    get origins() {
      return [...branches.keys()]
    },
    join(call, delayMs) {
      const facts = connectionFacts(call)
      const { origin } = facts
      const known = branches.get(origin)
      if ((known !== undefined && !known.hasEnded) || signal.aborted) return
      if (known === undefined) redundancy.joined(origin)
      const life = createLifetime(signal)
      const branch: Branch = { facts, life, hasEnded: false, failure: undefined }
      branches.set(origin, branch)
      events.emit('status', { type: 'joined', ...facts })
      void run(call, branch, delayMs)
    },
    leave(origin) {
      const branch = branches.get(origin)
      if (branch === undefined) return
      branches.delete(origin)
      if (branch.hasEnded) events.emit('status', { type: 'left', ...branch.facts })
      else branch.life.end(new Error(`origin ${origin} is no longer listed`))
    },
    opened: opened.promise,
    ended: ended.promise,
  }
}

/**
 * Emits an error when connections to some origins fail, and another error when fewer connections
 * are open than redundancy needs. Neither error is repeated while its state lasts. The caller calls
 * `joined` with each new origin.
 */
function watchRedundancy(
  { connections, events, defer }: StreamScope,
  branches: ReadonlyMap<string, Branch>,
): { joined(origin: string): void } {
  /** The origins whose failure was reported. */
  const reported = new Set<string>()
  let isThin = false
  defer(
    connections.watch((change, before) => {
      if (!branches.has(change.origin)) return
      // A connection that opens and closes again at once still counts as failing.
      if (change.type === 'connected' && !before.isFailing) reported.delete(change.origin)
      report()
    }),
  )

  function report(): void {
    const origins = [...branches.keys()]
    const states = origins.map(origin => connections.of(origin))
    const open = states.filter(isOpen).length
    const failing = origins.filter((_origin, at) => states[at]?.isFailing && !isOpen(states[at]))
    if (open >= REQUIRED) isThin = false
    if (open === 0 || open + failing.length < origins.length || failing.length === 0) return
    const state = `${open} of ${origins.length} connections are open`
    if (failing.some(origin => !reported.has(origin))) {
      for (const origin of failing) reported.add(origin)
      const counts = { failedConnections: failing.length, totalConnections: origins.length }
      const message = `${state}; failing: ${failing.join(', ')}`
      events.emit('error', new PartialConnectionFailureError(message, counts))
    }
    if (open >= REQUIRED || isThin) return
    isThin = true
    const message = `${state}, fewer than ${REQUIRED}: there is no redundancy`
    const counts = { availableConnections: open, requiredConnections: REQUIRED }
    events.emit('error', new InsufficientConnectionsError(message, counts))
  }

  return { joined: origin => void reported.delete(origin) }
}

function allFailed(branches: ReadonlyMap<string, Branch>): MultiConnectionError {
  const failures = [...branches].map(
    ([name, { failure }]) => `${name}: ${asError(failure).message}`,
  )
  const errors = [...branches.values()].map(({ failure }) => failure)
  return new MultiConnectionError(`all connections failed\n  ${failures.join('\n  ')}`, { errors })
}

function isOpen(state: ConnectionState | undefined): boolean {
  return state !== undefined && state.open > 0
}
