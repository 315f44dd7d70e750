import { checkNumber, MAX_TIMER } from 'sluice/core'
import type { EngineClock } from './clock.js'
import type { EngineContext } from './context.js'
import type { PublishedReport } from './ledger.js'
import type { Forgery } from './network.js'
import { seededRandom } from './random.js'
import type { Frame } from './streams.js'

/**
 * The faults of an origin's reports. They are applied in this order: drop, forge, corrupt,
 * duplicate, reorder, lag, delay.
 */
export interface FrameFaultSettings {
  /**
   * Delays reports by `ms` of the engine's clock and keeps their order. Reports that wait already
   * wait `ms` from this call. 0 ends the delay and sends the delayed reports.
   */
  delay(ms: number): void
  /** Drops this share of reports, 0 to 1, or every report for which the function returns true. */
  drop(rate: number | ((report: PublishedReport) => boolean)): void
  /** Sends this share of reports, 0 to 1, twice. */
  duplicate(rate: number): void
  /**
   * Sends reports out of order. No report moves by more than `depth` places. 0 ends this and sends
   * the buffered reports.
   */
  reorder(depth: number): void
  /**
   * Holds each report back until this many later reports of its feed were published. 0 ends this
   * and sends the waiting reports.
   */
  lag(reports: number): void
  /**
   * Forges this share of reports, 0 to 1; by default, all reports. `undefined` ends this. A forged
   * report is not recorded as a delivery.
   */
  forge(how: Forgery | undefined, rate?: number): void
  /**
   * Changes one to four neighbouring bytes in this share of reports, 0 to 1. The WebSocket frames
   * stay valid.
   */
  corrupt(rate: number): void
}

/** Makes the frame of a report. */
export function frameOf(report: PublishedReport): Frame {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  const envelope = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return { data: Buffer.from(JSON.stringify({ report: envelope })), feedID, report }
}

/** How many neighbouring bytes of a report `corrupt` changes at most. */
const maxCorruptBytes = 4

function checkRate(method: string, rate: number): number {
  return checkNumber(`${method}: rate`, rate, { min: 0, max: 1 })
}

/** Returns a copy in which one to four neighbouring bytes are changed. */
function corrupted(data: string | Uint8Array, random: () => number): Uint8Array {
  const bytes = Buffer.from(data)
  const count = 1 + Math.floor(random() * maxCorruptBytes)
  const start = Math.floor(random() * (bytes.length - count + 1))
  for (let at = start; at < start + count; at++)
    bytes[at] = (bytes[at] as number) ^ (1 + Math.floor(random() * 255))
  return bytes
}

/** A frame in the delay line. */
interface Delayed {
  readonly frame: Frame
  isDue: boolean
  /** Cancels its timer. */
  cancel(): void
}

/** Creates a stage that sends frames after a delay and keeps their order. */
function createDelayLine(clock: EngineClock, out: (frame: Frame) => void) {
  const delayed: Delayed[] = []
  let delayMs = 0

  function sendDue(): void {
    while (delayed[0]?.isDue) out((delayed.shift() as Delayed).frame)
  }

  function wait(entry: Delayed): void {
    entry.cancel()
    entry.isDue = delayMs === 0
    if (entry.isDue) return
    entry.cancel = clock.after(delayMs, () => {
      entry.isDue = true
      sendDue()
    })
  }

  return {
    send(frame: Frame): void {
      const entry = { frame, isDue: false, cancel() {} }
      delayed.push(entry)
      wait(entry)
      sendDue()
    },
    set(ms: number): void {
      delayMs = checkNumber('delay: ms', ms, { min: 0, max: MAX_TIMER })
      for (const entry of delayed) wait(entry)
      sendDue()
    },
    clear(): void {
      for (const { cancel } of delayed.splice(0)) cancel()
    },
  }
}

/**
 * Creates a stage that sends a frame after a set number of later frames of its feed have arrived.
 */
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

/** Creates a stage that sends frames in random order. */
function createShuffler(random: () => number, out: (frame: Frame) => void) {
  const buffered: { readonly frame: Frame; overtaken: number }[] = []
  let depth = 0

  /**
   * Sends random frames until only `depth` frames are left. If `depth` frames have overtaken the
   * oldest frame, it sends the oldest frame instead.
   */
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

/** Sends the reports of an origin with the faults that are set. At first, no fault is set. */
export class FrameFaults {
  readonly settings: FrameFaultSettings = {
    drop: rate => {
      const random = this.#random('drop')
      if (typeof rate === 'function') this.#isDropped = rate
      else this.#isDropped = checkRate('drop', rate) === 0 ? undefined : () => random() < rate
    },
    forge: (how, rate = 1) => {
      this.#forgeRate = checkRate('forge', rate)
      this.#forgery = how
    },
    corrupt: rate => {
      this.#corruptRate = checkRate('corrupt', rate)
    },
    duplicate: rate => {
      this.#duplicateRate = checkRate('duplicate', rate)
    },
    reorder: depth => this.#shuffler.set(depth),
    lag: reports => this.#lag.set(reports),
    delay: ms => this.#delayLine.set(ms),
  }
  readonly #context: EngineContext
  readonly #origin: string
  readonly #randoms = new Map<string, () => number>()
  readonly #delayLine: ReturnType<typeof createDelayLine>
  readonly #lag: ReturnType<typeof createLag>
  readonly #shuffler: ReturnType<typeof createShuffler>
  #isDropped: ((report: PublishedReport) => boolean) | undefined
  #forgery: Forgery | undefined
  #forgeRate = 1
  #corruptRate = 0
  #duplicateRate = 0

  constructor(context: EngineContext, origin: string, out: (frame: Frame) => void) {
    this.#context = context
    this.#origin = origin
    this.#delayLine = createDelayLine(context.settings.clock, out)
    this.#lag = createLag(this.#delayLine.send)
    this.#shuffler = createShuffler(this.#random('reorder'), this.#lag.send)
  }

  /** Sends the frame of a report, with the faults that apply. */
  send(frame: Frame): void {
    const { report, feedID } = frame
    if (report === undefined || this.#isDropped?.(report)) return
    const forgery = this.#forgery
    const isForged = forgery !== undefined && this.#random('forge')() < this.#forgeRate
    const uncorrupted = isForged ? this.#forged(report, forgery) : frame
    const corruptRandom = this.#random('corrupt')
    const isCorrupt = this.#corruptRate > 0 && corruptRandom() < this.#corruptRate
    const sent = isCorrupt
      ? { data: corrupted(uncorrupted.data, corruptRandom), feedID, report: undefined }
      : uncorrupted
    const isDuplicate = this.#duplicateRate > 0 && this.#random('duplicate')() < this.#duplicateRate
    this.#shuffler.send(sent)
    if (isDuplicate) this.#shuffler.send(sent)
  }

  /** Discards buffered and delayed frames. */
  clear(): void {
    this.#delayLine.clear()
    this.#lag.clear()
    this.#shuffler.clear()
  }

  #forged(report: PublishedReport, how: Forgery): Frame {
    const fullReport = this.#context.forge(report.fullReport, how)
    return { ...frameOf({ ...report, fullReport }), report: undefined }
  }

  /** The random numbers of a fault. They depend only on the fault, the seed and the origin's id. */
  #random(fault: string): () => number {
    const known = this.#randoms.get(fault)
    const random =
      known ?? seededRandom(this.#context.settings.seed, `${fault} origin ${this.#origin}`)
    this.#randoms.set(fault, random)
    return random
  }
}
