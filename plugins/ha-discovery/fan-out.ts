import type { StreamCall } from '../../client/call.js'
import { connectionFacts } from '../../client/call.js'
import type { Handler } from '../../client/plugin.js'
import type { ConnectionFacts, Status } from '../../client/status.js'
import { asError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'
import { onAbort } from '../../core/on-abort.js'
import { sleep } from '../../core/sleep.js'
import {
  InsufficientConnectionsError,
  MultiConnectionError,
  PartialConnectionFailureError,
} from './errors.js'

/** Several connections that carry one stream, each a call of its own with its own retry. */
export interface FanOut {
  /** The origins that were joined and not left, with what became of their connections. */
  readonly origins: ReadonlyMap<string, { readonly isOpen: boolean; readonly hasEnded: boolean }>
  /** Starts a connection after a while, unless its origin has one that has not ended for good. */
  join(call: StreamCall, delayMs: number): void
  /** Ends the connection of an origin. */
  leave(origin: string): void
  /** Rejects with MultiConnectionError when the last connection has ended for good. */
  readonly ended: Promise<never>
}

/** Below this, the loss of one more connection is the loss of the stream. */
const REQUIRED = 2

interface Branch {
  readonly facts: ConnectionFacts
  readonly life: Lifetime
  isOpen: boolean
  /** Its last dial has failed. */
  isRefused: boolean
  /** Its connection can't be had, or doesn't last. */
  isFailing: boolean
  /** That has been announced. */
  isAnnounced: boolean
  hasEnded: boolean
  failure: Error | undefined
}

/**
 * Carries a stream over connections that come and go, and announces when they are fewer than they should be: once when
 * one can't be had any more, and once when less than two are left. All end with `call.signal`.
 */
export function createFanOut(next: Handler, { scope, signal }: StreamCall): FanOut {
  const branches = new Map<string, Branch>()
  let isThin = false
  let fail: (error: Error) => void
  const ended = new Promise<never>((_resolve, reject) => {
    fail = reject
  })
  const unwatch = scope.watch(keepAccount)
  scope.defer(unwatch)
  onAbort(signal, () => {
    if (running() === 0) fail(asError(signal.reason))
  })

  function running(): number {
    return [...branches.values()].filter(branch => !branch.hasEnded).length
  }

  function keepAccount(status: Status): void {
    const branch = 'origin' in status ? branches.get(status.origin) : undefined
    if (branch === undefined) return
    if (status.type === 'connected') {
      branch.isOpen = true
      // One that opens and closes again at once is no better than one that does not open.
      if (!branch.isFailing) branch.isAnnounced = false
      branch.isFailing = false
    } else if (status.type === 'disconnected') {
      branch.isOpen = false
      branch.isRefused = !status.wasOpen
    } else if (status.type === 'reconnecting') {
      // One that was open and ended is dialled again at once; only when that fails is it missing. Nor is one that a plugin
      // dials again in the same attempt.
      if (branch.isRefused || status.attempt > 1) branch.isFailing = true
    }
    announce()
  }

  function announce(): void {
    const all = [...branches.values()]
    const open = all.filter(branch => branch.isOpen).length
    const failing = [...branches].filter(([, branch]) => branch.isFailing && !branch.isOpen)
    if (open >= REQUIRED) isThin = false
    if (open === 0 || open + failing.length < all.length || failing.length === 0) return
    const state = `${open} of ${all.length} connections are open`
    if (failing.some(([, branch]) => !branch.isAnnounced)) {
      for (const [, branch] of failing) branch.isAnnounced = true
      const names = failing.map(([origin]) => origin).join(', ')
      const counts = { failedConnections: failing.length, totalConnections: all.length }
      scope.fail(new PartialConnectionFailureError(`${state}; failing: ${names}`, counts))
    }
    if (open < REQUIRED && !isThin) {
      isThin = true
      const counts = { availableConnections: open, requiredConnections: REQUIRED }
      scope.fail(
        new InsufficientConnectionsError(
          `${state}, less than ${REQUIRED}: there is no redundancy`,
          counts,
        ),
      )
    }
  }

  async function run(call: StreamCall, branch: Branch, delayMs: number): Promise<void> {
    const { life, facts } = branch
    const { origin } = facts
    try {
      await sleep(delayMs, life.signal)
      const reply = await next({ ...call, signal: life.signal })
      if (reply.kind === 'stream') branch.failure = reply.error
    } catch (thrown) {
      branch.failure = asError(thrown)
    }
    life.end()
    if (branches.get(origin) !== branch) {
      if (!branches.has(origin)) scope.status({ type: 'left', ...facts })
      return
    }
    branch.hasEnded = true
    branch.isOpen = false
    branch.isFailing = true
    if (!signal.aborted) scope.status({ type: 'failed', error: asError(branch.failure), ...facts })
    if (running() > 0) return announce()
    unwatch()
    const failures = [...branches].map(
      ([name, { failure }]) => `${name}: ${asError(failure).message}`,
    )
    const errors = [...branches.values()].map(({ failure }) => failure)
    fail(new MultiConnectionError(`all connections failed\n  ${failures.join('\n  ')}`, { errors }))
  }

  return {
    origins: branches,
    join(call, delayMs) {
      const facts = connectionFacts(call)
      const { origin } = facts
      const known = branches.get(origin)
      if ((known !== undefined && !known.hasEnded) || signal.aborted) return
      const branch: Branch = {
        facts,
        life: createLifetime(signal),
        isOpen: false,
        isRefused: false,
        isFailing: false,
        isAnnounced: known?.isAnnounced ?? false,
        hasEnded: false,
        failure: undefined,
      }
      branches.set(origin, branch)
      scope.status({ type: 'joined', ...facts })
      void run(call, branch, delayMs)
    },
    leave(origin) {
      const branch = branches.get(origin)
      if (branch === undefined) return
      branches.delete(origin)
      if (branch.hasEnded) scope.status({ type: 'left', ...branch.facts })
      else branch.life.end(new Error(`origin ${origin} is no longer offered`))
    },
    ended,
  }
}
