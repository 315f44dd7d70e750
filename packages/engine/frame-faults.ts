import { checkNumber, MAX_TIMER } from 'sluice/core'
import type { EngineContext } from './context.js'
import type { Forgery } from './forge.js'
import type { PublishedReport } from './ledger.js'
import { seededRandom } from './random.js'
import type { Frame } from './websocket-server.js'

/** The faults of an origin's reports, applied in the order drop, forge, corrupt, duplicate, reorder, lag, delay. */
export interface FrameFaultSettings {
  /** Delays reports by `ms`, in their order; 0 ends it and sends the delayed ones. */
  delay(ms: number): void
  /** Drops this share of reports, 0 to 1, or those the function picks. */
  drop(rate: number | ((report: PublishedReport) => boolean)): void
  /** Sends this share of reports, 0 to 1, twice. */
  duplicate(rate: number): void
  /**
   * Sends reports in another order, none more than `depth` places from its own; 0 ends it and sends the buffered ones.
   */
  reorder(depth: number): void
  /** Sends each report once so many later ones of its feed were published; 0 ends it and sends those that wait. */
  lag(reports: number): void
  /** Forges this share of reports, 0 to 1, or all; undefined ends it. A forged report is no delivery. */
  forge(how: Forgery | undefined, rate?: number): void
  /** Changes one to four neighbouring bytes of this share of reports, 0 to 1; the WebSocket frames stay valid. */
  corrupt(rate: number): void
}

/** Sends reports with faults. */
export interface FrameFaults {
  readonly settings: FrameFaultSettings
  /** Sends the frame of a report. */
  readonly send: (frame: Frame) => void
  /** Discards buffered and delayed frames. */
  readonly clear: () => void
}

/** The frame of a report. */
export function frameOf(report: PublishedReport): Frame {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  const envelope = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return { data: Buffer.from(JSON.stringify({ report: envelope })), feedID, report }
}

const maxCorruptBytes = 4

function checkRate(method: string, rate: number): number {
  return checkNumber(`${method}: rate`, rate, { min: 0, max: 1 })
}

/** A copy with one to four neighbouring bytes changed. */
function corrupted(data: string | Uint8Array, random: () => number): Uint8Array {
  const bytes = Buffer.from(data)
  const count = 1 + Math.floor(random() * maxCorruptBytes)
  const start = Math.floor(random() * (bytes.length - count + 1))
  for (let at = start; at < start + count; at++)
    bytes[at] = (bytes[at] as number) ^ (1 + Math.floor(random() * 255))
  return bytes
}

/** Sends frames after a delay, in their order. */
function createDelayLine(out: (frame: Frame) => void) {
  const delayed: { readonly frame: Frame; readonly since: number }[] = []
  let delayMs = 0
  let timer: NodeJS.Timeout | undefined

  function sendDue(): void {
    clearTimeout(timer)
    timer = undefined
    const now = performance.now()
    for (let first = delayed[0]; first !== undefined; first = delayed[0]) {
      const left = first.since + delayMs - now
      if (left > 0) {
        timer = setTimeout(sendDue, Math.ceil(left))
        return
      }
      delayed.shift()
      out(first.frame)
    }
  }

  return {
    send(frame: Frame): void {
      delayed.push({ frame, since: performance.now() })
      if (timer === undefined) sendDue()
    },
    set(ms: number): void {
      delayMs = checkNumber('delay: ms', ms, { min: 0, max: MAX_TIMER })
      sendDue()
    },
    clear(): void {
      clearTimeout(timer)
      timer = undefined
      delayed.length = 0
    },
  }
}

/** Sends each frame when so many of its feed have come after it. */
function createLag(out: (frame: Frame) => void) {
  const byFeed = new Map<string | undefined, Frame[]>()
  let behind = 0

  function sendDue(waiting: Frame[]): void {
    while (waiting.length > behind) out(waiting.shift() as Frame)
  }

  return {
    send(frame: Frame): void {
      const waiting = byFeed.get(frame.feedID) ?? []
      byFeed.set(frame.feedID, waiting)
      waiting.push(frame)
      sendDue(waiting)
    },
    set(reports: number): void {
      behind = checkNumber('lag: reports', reports, { min: 0, whole: true })
      for (const waiting of byFeed.values()) sendDue(waiting)
    },
    clear(): void {
      byFeed.clear()
    },
  }
}

/** Sends frames in random order. */
function createShuffler(random: () => number, out: (frame: Frame) => void) {
  const buffered: { readonly frame: Frame; overtaken: number }[] = []
  let depth = 0

  /** Sends random frames, but the oldest once `depth` others have overtaken it. */
  function sendExcess(): void {
    while (buffered.length > depth) {
      const isOverdue = (buffered[0]?.overtaken ?? 0) >= depth
      const at = isOverdue ? 0 : Math.floor(random() * buffered.length)
      for (const older of buffered.slice(0, at)) older.overtaken++
      for (const { frame } of buffered.splice(at, 1)) out(frame)
    }
  }

  return {
    send(frame: Frame): void {
      buffered.push({ frame, overtaken: 0 })
      sendExcess()
    },
    set(frames: number): void {
      depth = checkNumber('reorder: depth', frames, { min: 0, whole: true })
      sendExcess()
    },
    clear(): void {
      buffered.length = 0
    },
  }
}

/** No faults yet. Each draws random numbers of its own, from the seed and the origin's id. */
export function createFrameFaults(
  { settings: { seed }, forge }: EngineContext,
  origin: string,
  out: (frame: Frame) => void,
): FrameFaults {
  const random = (name: string): (() => number) => seededRandom(seed, `${name} origin ${origin}`)
  const dropRandom = random('drop')
  const forgeRandom = random('forge')
  const corruptRandom = random('corrupt')
  const duplicateRandom = random('duplicate')
  const delayLine = createDelayLine(out)
  const lag = createLag(delayLine.send)
  const shuffler = createShuffler(random('reorder'), lag.send)
  let isDropped: ((report: PublishedReport) => boolean) | undefined
  let forgery: Forgery | undefined
  let forgeRate = 1
  let corruptRate = 0
  let duplicateRate = 0

  function forgedFrame(report: PublishedReport, how: Forgery): Frame {
    const forged = { ...report, fullReport: forge(report.fullReport, how) }
    return { ...frameOf(forged), report: undefined }
  }

  return {
    settings: {
      drop(rate) {
        if (typeof rate === 'function') isDropped = rate
        else isDropped = checkRate('drop', rate) === 0 ? undefined : () => dropRandom() < rate
      },
      forge(how, rate = 1) {
        forgeRate = checkRate('forge', rate)
        forgery = how
      },
      corrupt(rate) {
        corruptRate = checkRate('corrupt', rate)
      },
      duplicate(rate) {
        duplicateRate = checkRate('duplicate', rate)
      },
      reorder: shuffler.set,
      lag: lag.set,
      delay: delayLine.set,
    },
    send(frame) {
      const { report, feedID } = frame
      if (report === undefined || isDropped?.(report)) return
      const isForged = forgery !== undefined && forgeRandom() < forgeRate
      const uncorrupted = isForged ? forgedFrame(report, forgery as Forgery) : frame
      const isCorrupt = corruptRate > 0 && corruptRandom() < corruptRate
      const sent = isCorrupt
        ? { data: corrupted(uncorrupted.data, corruptRandom), feedID, report: undefined }
        : uncorrupted
      const isDuplicate = duplicateRate > 0 && duplicateRandom() < duplicateRate
      shuffler.send(sent)
      if (isDuplicate) shuffler.send(sent)
    },
    clear() {
      delayLine.clear()
      lag.clear()
      shuffler.clear()
    },
  }
}
