import { checkNumber, MAX_TIMER } from '../core/options.js'
import type { Forgery } from './forge.js'
import type { PublishedReport } from './ledger.js'
import { seededRandom } from './random.js'
import type { Frame } from './websocket-server.js'

/** The faults of an origin's reports, applied in this order. */
export interface FrameFaults {
  /** Sends a report's frame. */
  readonly send: (frame: Frame, report: PublishedReport) => void
  /** Drops this share of frames, or those a function picks. */
  readonly drop: (rate: number | ((report: PublishedReport) => boolean)) => void
  /** Forges this share of reports. */
  readonly forge: (how: Forgery | undefined, rate?: number) => void
  /** Changes bytes in this share of frames. */
  readonly corrupt: (rate: number) => void
  /** Sends this share of frames twice. */
  readonly duplicate: (rate: number) => void
  /** Buffers up to `depth` frames and sends them in another order. */
  readonly reorder: (depth: number) => void
  /** Delays frames by `ms`. */
  readonly delay: (ms: number) => void
  /** Discards buffered and delayed frames. */
  readonly clear: () => void
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
function createDelayLine(
  out: (frame: Frame) => void,
): Pick<FrameFaults, 'delay' | 'clear'> & { readonly send: (frame: Frame) => void } {
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
    send(frame) {
      delayed.push({ frame, since: performance.now() })
      if (timer === undefined) sendDue()
    },
    delay(ms) {
      delayMs = checkNumber('delay: ms', ms, { min: 0, max: MAX_TIMER })
      sendDue()
    },
    clear() {
      clearTimeout(timer)
      timer = undefined
      delayed.length = 0
    },
  }
}

/** Sends frames in random order. */
function createShuffler(
  random: () => number,
  out: (frame: Frame) => void,
): Pick<FrameFaults, 'reorder' | 'clear'> & { readonly send: (frame: Frame) => void } {
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
    send(frame) {
      buffered.push({ frame, overtaken: 0 })
      sendExcess()
    },
    reorder(frames) {
      depth = checkNumber('reorder: depth', frames, { min: 0, whole: true })
      sendExcess()
    },
    clear() {
      buffered.length = 0
    },
  }
}

/** No faults yet. Each draws random numbers of its own, from the seed and the purpose. */
export function createFrameFaults(
  seed: number,
  purpose: string,
  out: (frame: Frame) => void,
  forged: (report: PublishedReport, how: Forgery) => Frame,
): FrameFaults {
  const random = (name: string): (() => number) => seededRandom(seed, `${name} ${purpose}`)
  const dropRandom = random('drop')
  const forgeRandom = random('forge')
  const corruptRandom = random('corrupt')
  const duplicateRandom = random('duplicate')
  const delayLine = createDelayLine(out)
  const shuffler = createShuffler(random('reorder'), delayLine.send)

  let isDropped: ((report: PublishedReport) => boolean) | undefined
  let forgery: Forgery | undefined
  let forgeRate = 1
  let corruptRate = 0
  let duplicateRate = 0

  return {
    send(frame, report) {
      if (isDropped?.(report)) return
      const isForged = forgery !== undefined && forgeRandom() < forgeRate
      const uncorrupted = isForged ? forged(report, forgery as Forgery) : frame
      const isCorrupt = corruptRate > 0 && corruptRandom() < corruptRate
      const sent = isCorrupt
        ? {
            data: corrupted(uncorrupted.data, corruptRandom),
            feedID: frame.feedID,
            report: undefined,
          }
        : uncorrupted
      const isDuplicate = duplicateRate > 0 && duplicateRandom() < duplicateRate
      shuffler.send(sent)
      if (isDuplicate) shuffler.send(sent)
    },
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
    reorder: shuffler.reorder,
    delay: delayLine.delay,
    clear() {
      delayLine.clear()
      shuffler.clear()
    },
  }
}
