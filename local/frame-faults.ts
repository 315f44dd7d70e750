import type { Forgery } from './forge.js'
import type { PublishedReport } from './ledger.js'
import { seededRandom } from './random.js'
import type { Frame } from './websocket-server.js'

/** What goes wrong with the reports of an origin on their way to its streams: in this order, if it all does. */
export interface FrameFaults {
  /** Sends a report's frame. */
  readonly send: (frame: Frame, report: PublishedReport) => void
  /** Leaves frames out: that share of them, or those a function picks. */
  readonly drop: (rate: number | ((report: PublishedReport) => boolean)) => void
  /** Forges that share of reports. */
  readonly forge: (how: Forgery | undefined, rate?: number) => void
  /** Changes bytes in that share of frames. */
  readonly corrupt: (rate: number) => void
  /** Sends that share of frames twice. */
  readonly duplicate: (rate: number) => void
  /** Holds so many frames back and lets them go in another order. */
  readonly reorder: (depth: number) => void
  /** Sends frames so many ms later. */
  readonly delay: (ms: number) => void
  /** Forgets the frames that are held back. */
  readonly clear: () => void
}

const mostCorruptBytes = 4
const longestDelayMs = 2 ** 31 - 1

function checkRate(name: string, rate: number): void {
  if (!(rate >= 0 && rate <= 1)) throw new RangeError(`${name}: a rate is 0 to 1, got ${rate}`)
}

/** A copy with one to four neighbouring bytes changed. */
function corrupted(data: string | Uint8Array, random: () => number): Uint8Array {
  const bytes = Buffer.from(data)
  const count = 1 + Math.floor(random() * mostCorruptBytes)
  const start = Math.floor(random() * (bytes.length - count + 1))
  for (let at = start; at < start + count; at++) {
    bytes[at] = (bytes[at] as number) ^ (1 + Math.floor(random() * 255))
  }
  return bytes
}

/** No faults, yet. The random ones depend on the seed, the purpose and the frames alone, each on its own. */
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
  const reorderRandom = random('reorder')

  let isDropped: ((report: PublishedReport) => boolean) | undefined
  let forgery: Forgery | undefined
  let forgeRate = 1
  let corruptRate = 0
  let duplicateRate = 0
  let depth = 0
  let delayMs = 0
  const held: { readonly frame: Frame; overtaken: number }[] = []
  const late: { readonly frame: Frame; readonly since: number }[] = []
  let timer: NodeJS.Timeout | undefined

  function sendLate(): void {
    clearTimeout(timer)
    timer = undefined
    const now = performance.now()
    for (let first = late[0]; first !== undefined; first = late[0]) {
      const left = first.since + delayMs - now
      if (left > 0) {
        timer = setTimeout(sendLate, Math.ceil(left))
        return
      }
      late.shift()
      out(first.frame)
    }
  }

  function sendInTime(frame: Frame): void {
    late.push({ frame, since: performance.now() })
    if (timer === undefined) sendLate()
  }

  /** Lets one frame go: any, but the oldest once it has been overtaken by as many as may be held. */
  function letGo(): void {
    const isOverdue = (held[0]?.overtaken ?? 0) >= depth
    const at = isOverdue ? 0 : Math.floor(reorderRandom() * held.length)
    for (const older of held.slice(0, at)) older.overtaken++
    for (const { frame } of held.splice(at, 1)) sendInTime(frame)
  }

  function sendInOrder(frame: Frame): void {
    held.push({ frame, overtaken: 0 })
    while (held.length > depth) letGo()
  }

  function send(frame: Frame, report: PublishedReport): void {
    if (isDropped?.(report)) return
    const isForged = forgery !== undefined && forgeRandom() < forgeRate
    const honest = isForged ? forged(report, forgery as Forgery) : frame
    const isCorrupt = corruptRate > 0 && corruptRandom() < corruptRate
    const sent = isCorrupt
      ? { data: corrupted(honest.data, corruptRandom), feedID: frame.feedID, report: undefined }
      : honest
    const isDuplicate = duplicateRate > 0 && duplicateRandom() < duplicateRate
    sendInOrder(sent)
    if (isDuplicate) sendInOrder(sent)
  }

  return {
    send,
    drop(rate) {
      if (typeof rate === 'function') {
        isDropped = rate
        return
      }
      checkRate('drop', rate)
      isDropped = rate === 0 ? undefined : () => dropRandom() < rate
    },
    forge(how, rate = 1) {
      checkRate('forge', rate)
      forgery = how
      forgeRate = rate
    },
    corrupt(rate) {
      checkRate('corrupt', rate)
      corruptRate = rate
    },
    duplicate(rate) {
      checkRate('duplicate', rate)
      duplicateRate = rate
    },
    reorder(frames) {
      if (!Number.isSafeInteger(frames) || frames < 0) {
        throw new RangeError(`reorder: a depth is an integer, 0 or more, got ${frames}`)
      }
      depth = frames
      while (held.length > depth) letGo()
    },
    delay(ms) {
      if (!(ms >= 0 && ms <= longestDelayMs)) {
        throw new RangeError(`delay: ms is 0 to ${longestDelayMs}, got ${ms}`)
      }
      delayMs = ms
      sendLate()
    },
    clear() {
      clearTimeout(timer)
      timer = undefined
      held.length = 0
      late.length = 0
    },
  }
}
