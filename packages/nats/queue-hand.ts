import type { JsMsg } from '@nats-io/jetstream'
import type { StreamScope } from 'sluice/client'
import type { Delivery, DeliveryOwner } from './queue-deliveries.js'

/** A message that the worker has been given, until it is dealt with. */
export interface Held extends Delivery {
  /** Of its last delivery. */
  message: JsMsg
  /** Which of the messages that the worker was given it is. */
  readonly order: number
  /** When it came, or one that came before it was dealt with, in ms of `performance.now`. */
  since: number
  /** The log has been told what becomes of it. */
  isOver: boolean
}

/** What a worker has in hand. */
export interface Hand {
  /** Takes a message; undefined where it has it already. */
  add(message: JsMsg, owner: DeliveryOwner): Held | undefined
  /** Tells the log what becomes of a message: there is room for another. Does nothing where it has been told. */
  finish(held: Held, answer: (message: JsMsg) => void): void
  /** Resolves with how many messages may be asked for, `most` at most, once there are any; 0 when the stream has ended. */
  reserve(most: number): Promise<number>
  /** Messages that were asked for have come, or will not come. */
  unreserve(count: number): void
  /** The seconds after which the log gives a message to another worker. */
  setAckWait(seconds: number): void
}

/** How a worker has messages in hand. */
export interface HandParts {
  readonly scope: StreamScope
  /** Messages that it may have at most. */
  readonly limit: number
  /** In seconds, to begin with. */
  readonly ackWait: number
  /** Milliseconds that a message may be worked on. */
  readonly handlingTimeout: number
  /** It was worked on for longer: called after the log has been told. */
  gaveUp(held: Held): void
}

/**
 * Holds what a worker was given. Of all of it the log is told that work is in progress, so that nothing is given to another worker
 * since it waits here. What is worked on for too long is given up: the time counts from when the last one before it was dealt with.
 */
export function createHand({ scope, limit, handlingTimeout, ...parts }: HandParts): Hand {
  const held = new Map<number, Held>()
  const room = createRoom(() => limit - held.size, scope)
  let { ackWait } = parts
  let orders = 0
  /** The first of those, by their order, that were dealt with since the last look. */
  let first = Number.POSITIVE_INFINITY
  let isWatched = false

  function look(): void {
    const now = performance.now()
    for (const one of held.values()) {
      if (first < one.order) one.since = now
      if (now - one.since < handlingTimeout) respond(one.message, inProgress)
      else {
        remove(one, giveBack)
        parts.gaveUp(one)
      }
    }
    first = Number.POSITIVE_INFINITY
    isWatched = held.size > 0
    if (isWatched) lookAgain()
  }

  function lookAgain(): void {
    isWatched = true
    setTimeout(look, 250 * ackWait).unref?.()
  }

  function remove(one: Held, answer: (message: JsMsg) => void): void {
    one.isOver = true
    held.delete(one.message.seq)
    respond(one.message, answer)
    room.changed()
  }

  return {
    add(message, owner) {
      const known = held.get(message.seq)
      if (known !== undefined) {
        known.message = message
        return undefined
      }
      const since = performance.now()
      const one: Held = { owner, message, order: orders++, since, isOver: false }
      held.set(message.seq, one)
      if (!isWatched) lookAgain()
      return one
    },
    finish(one, answer) {
      if (one.isOver) return
      if (one.order < first) first = one.order
      remove(one, answer)
    },
    reserve: room.reserve,
    unreserve: room.unreserve,
    setAckWait(seconds) {
      ackWait = seconds
    },
  }
}

const inProgress = (message: JsMsg): void => message.working()
const giveBack = (message: JsMsg): void => message.nak()

/** A connection that was closed takes no answer: the log gives the message out again. */
export function respond(message: JsMsg, answer: (message: JsMsg) => void): void {
  try {
    answer(message)
  } catch {}
}

/** Shares out how many messages may be asked for, first come, first served. */
function createRoom(unused: () => number, scope: StreamScope) {
  const waiting: { readonly most: number; resolve(count: number): void }[] = []
  let reserved = 0
  scope.defer(() => {
    for (const { resolve } of waiting.splice(0)) resolve(0)
  })

  function changed(): void {
    while (waiting.length > 0) {
      const free = unused() - reserved
      if (free <= 0) return
      const { most, resolve } = waiting.shift() as (typeof waiting)[number]
      const count = Math.min(free, most)
      reserved += count
      resolve(count)
    }
  }

  return {
    changed,
    reserve(most: number): Promise<number> {
      return new Promise(resolve => {
        if (scope.signal.aborted) return resolve(0)
        waiting.push({ most, resolve })
        changed()
      })
    },
    unreserve(count: number): void {
      reserved -= count
      changed()
    },
  }
}
