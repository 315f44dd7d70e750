import { onAbort } from 'sluice/core'
import { Rejection } from './rejection.js'
import { createTokenBucket, type TokenBucket } from './token-bucket.js'

/** Who asks for curve work. */
export interface Asker {
  /** Whether the connection has brought an authentic request before. */
  isProven(): boolean
  /** The address, or the network, of the connection. */
  readonly address: string
  /** Whether authentic requests have come from that address. */
  isKnown(): boolean
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
}

/** Says when curve work may begin. */
export interface Admission {
  /** Resolves when work may begin, with what is called when it has ended. Rejects with Rejection where too many wait. */
  enter(asker: Asker): Promise<() => void>
}

/** How many pieces of work a second strangers of one address get, and so many at once after a quiet while. */
const PER_SECOND = 20
const BURST = 40
/** Callers may be behind the same address, as that of a reverse proxy. */
const KNOWN_FACTOR = 10
/** How many pieces of work of strangers wait, of one address and of all. */
const MAX_PER_ADDRESS = 256
const MAX_WAITING = 1024
/** How many addresses are remembered. */
const MAX_LINES = 4096

interface Waiter {
  readonly begin: () => void
}

/** The strangers of an address. */
interface Line {
  readonly waiting: Set<Waiter>
  readonly bucket: TokenBucket
}

/**
 * Admits so much work at once. Proven connections come first. Strangers get what is left, one address after the other, at a
 * bounded rate each: they wait rather than being rejected, because who is answered at once asks again at once.
 */
export function createAdmission(width: number, now?: () => number): Admission {
  const proven = new Set<Waiter>()
  /** By address; the one that was served last comes last. */
  const lines = new Map<string, Line>()
  let free = width
  let strangers = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  function lineOf(network: string, isKnown: boolean): Line {
    const address = isKnown ? `known ${network}` : network
    const found = lines.get(address)
    if (found !== undefined) return found
    if (lines.size >= MAX_LINES)
      for (const [each, { waiting, bucket }] of lines)
        if (waiting.size === 0 && bucket.isFull()) lines.delete(each)
    const factor = isKnown ? KNOWN_FACTOR : 1
    const line = {
      waiting: new Set<Waiter>(),
      bucket: createTokenBucket(PER_SECOND * factor, BURST * factor, now),
    }
    lines.set(address, line)
    return line
  }

  function takeStranger(): Waiter | undefined {
    let soonest = Number.POSITIVE_INFINITY
    for (const [address, line] of lines) {
      const [waiter] = line.waiting
      if (waiter === undefined) continue
      const wait = line.bucket.msUntil(1)
      soonest = Math.min(soonest, wait)
      if (wait > 0) continue
      line.waiting.delete(waiter)
      line.bucket.spend(1)
      strangers--
      lines.delete(address)
      lines.set(address, line)
      return waiter
    }
    clearTimeout(timer)
    if (soonest < Number.POSITIVE_INFINITY) timer = setTimeout(serve, soonest).unref()
    return undefined
  }

  function serve(): void {
    while (free > 0) {
      const [first] = proven
      if (first !== undefined) proven.delete(first)
      const waiter = first ?? takeStranger()
      if (waiter === undefined) return
      free--
      waiter.begin()
    }
  }

  function leave(): void {
    free++
    serve()
  }

  return {
    enter({ isProven, isKnown, address, signal }) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason)
        const isStranger = !isProven()
        const queue = isStranger ? lineOf(address, isKnown()).waiting : proven
        if (isStranger && (strangers >= MAX_WAITING || queue.size >= MAX_PER_ADDRESS))
          return reject(new Rejection(503, 'the enclave is overloaded', false))
        const waiter: Waiter = {
          begin() {
            forget()
            resolve(leave)
          },
        }
        const forget = onAbort(signal, () => {
          if (queue.delete(waiter) && isStranger) strangers--
          reject(signal.reason)
        })
        queue.add(waiter)
        if (isStranger) strangers++
        serve()
      })
    },
  }
}
