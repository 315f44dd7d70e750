import type { Report } from '../../../report/report.js'

/** Reports in the order they came. */
export interface ReportRing {
  readonly length: number
  push(report: Report): void
  /** Takes the oldest one out. */
  takeFirst(): Report | undefined
  /** Takes the oldest one of a feed out, wherever it stands; only of a ring that keeps its reports by feed. */
  takeFirstOf(feedID: string): Report | undefined
  clear(): void
}

/** The slots of a feed's oldest and newest report. */
interface Chain {
  first: number
  last: number
}

const FIRST_CAPACITY = 16
const NONE = -1

/**
 * Makes an empty ring: one array, written round and round, that grows as it must. With `byFeed`, each report also knows
 * the slot of the next one of its feed, so that taking one out of the middle costs no search; it leaves a range, and missing
 * are swept when the array is full of them.
 */
export function createReportRing(byFeed: boolean): ReportRing {
  let slots: (Report | undefined)[] = new Array(FIRST_CAPACITY).fill(undefined)
  let nextOfFeed = new Int32Array(byFeed ? FIRST_CAPACITY : 0)
  const chains = new Map<string, Chain>()
  let head = 0
  /** Slots in use from the head on, missing included. */
  let span = 0
  let length = 0

  function put(report: Report): void {
    const slot = (head + span) & (slots.length - 1)
    slots[slot] = report
    span++
    length++
    if (byFeed) link(report.feedID, slot)
  }

  function link(feedID: string, slot: number): void {
    const chain = chains.get(feedID)
    nextOfFeed[slot] = NONE
    if (chain === undefined) chains.set(feedID, { first: slot, last: slot })
    else {
      nextOfFeed[chain.last] = slot
      chain.last = slot
    }
  }

  /** The oldest report of a feed leaves its chain. */
  function unlink(feedID: string, slot: number): void {
    const chain = chains.get(feedID)
    const next = nextOfFeed[slot] as number
    if (next === NONE) chains.delete(feedID)
    else if (chain !== undefined) chain.first = next
  }

  /** Moves the reports to the beginning of an array that has room for as many again. */
  function sweep(): void {
    const old = slots
    const oldHead = head
    const oldSpan = span
    const capacity = length * 2 > old.length ? old.length * 2 : old.length
    clear(capacity)
    for (let index = 0; index < oldSpan; index++) {
      const report = old[(oldHead + index) & (old.length - 1)]
      if (report !== undefined) put(report)
    }
  }

  function clear(capacity = FIRST_CAPACITY): void {
    slots = new Array(capacity).fill(undefined)
    if (byFeed) nextOfFeed = new Int32Array(capacity)
    chains.clear()
    head = 0
    span = 0
    length = 0
  }

  return {
    get length() {
      return length
    },
    push(report) {
      if (span === slots.length) sweep()
      put(report)
    },
    takeFirst() {
      while (span > 0) {
        const slot = head
        const report = slots[slot]
        head = (head + 1) & (slots.length - 1)
        span--
        if (report === undefined) continue
        slots[slot] = undefined
        length--
        if (byFeed) unlink(report.feedID, slot)
        return report
      }
      return undefined
    },
    takeFirstOf(feedID) {
      const slot = chains.get(feedID)?.first
      if (slot === undefined) return undefined
      const report = slots[slot]
      slots[slot] = undefined
      length--
      unlink(feedID, slot)
      return report
    },
    clear: () => clear(),
  }
}
