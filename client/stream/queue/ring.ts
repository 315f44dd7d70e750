import type { Report } from '../../../report/report.js'

/** Reports in the order they came. */
export interface ReportRing {
  readonly length: number
  push(report: Report): void
  /** Removes and returns the oldest report. */
  takeFirst(): Report | undefined
  /** Removes and returns the oldest report of a feed; only for a ring that is made `byFeed`. */
  takeFirstOf(feedID: string): Report | undefined
  clear(): void
}

/** A power of two. */
const FIRST_CAPACITY = 16
const NONE = -1

/**
 * Makes an empty ring: a circular array that grows. A report taken out of the middle leaves an empty slot; they are removed
 * when the array is full.
 */
export function createReportRing(byFeed: boolean): ReportRing {
  let slots: (Report | undefined)[] = []
  let chains: ReturnType<typeof createFeedChains> | undefined
  let head = 0
  /** Slots in use from the head on, empty ones included. */
  let span = 0
  let length = 0
  clear(FIRST_CAPACITY)

  function clear(capacity: number): void {
    slots = new Array(capacity).fill(undefined)
    if (byFeed) chains = createFeedChains(capacity)
    head = 0
    span = 0
    length = 0
  }

  function put(report: Report): void {
    const slot = (head + span) & (slots.length - 1)
    slots[slot] = report
    span++
    length++
    chains?.add(report.feedID, slot)
  }

  /** Takes the oldest report of a feed out of its slot. */
  function take(slot: number): Report | undefined {
    const report = slots[slot]
    if (report === undefined) return undefined
    slots[slot] = undefined
    length--
    chains?.removeFirst(report.feedID)
    return report
  }

  /** Moves the reports to the beginning of an array that has room for as many again. */
  function compact(): void {
    const reports = [...slots.slice(head), ...slots.slice(0, head)]
    clear(length * 2 > slots.length ? slots.length * 2 : slots.length)
    for (const report of reports) if (report !== undefined) put(report)
  }

  return {
    get length() {
      return length
    },
    push(report) {
      if (span === slots.length) compact()
      put(report)
    },
    takeFirst() {
      while (span > 0) {
        const report = take(head)
        head = (head + 1) & (slots.length - 1)
        span--
        if (report !== undefined) return report
      }
      return undefined
    },
    takeFirstOf(feedID) {
      const slot = chains?.firstOf(feedID)
      return slot === undefined ? undefined : take(slot)
    },
    clear: () => clear(FIRST_CAPACITY),
  }
}

/** Makes a linked list of slots for each feed, so that its oldest report is found without a search. */
function createFeedChains(capacity: number) {
  const chains = new Map<string, { first: number; last: number }>()
  /** For each slot the next one of the same feed. */
  const next = new Int32Array(capacity)

  return {
    firstOf: (feedID: string) => chains.get(feedID)?.first,
    add(feedID: string, slot: number) {
      const chain = chains.get(feedID)
      next[slot] = NONE
      if (chain === undefined) chains.set(feedID, { first: slot, last: slot })
      else {
        next[chain.last] = slot
        chain.last = slot
      }
    },
    removeFirst(feedID: string) {
      const chain = chains.get(feedID)
      if (chain === undefined) return
      chain.first = next[chain.first] as number
      if (chain.first === NONE) chains.delete(feedID)
    },
  }
}
