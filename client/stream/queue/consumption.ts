import { DataStreamsError, ValidationError } from '../../../core/errors.js'
import { setImmediate } from '../../../platform/globals.js'
import type { Report } from '../../../report/report.js'
import { createReportIterator } from './iterator.js'
import type { Outstanding } from './outstanding.js'
import {
  createReportQueue,
  type OverflowPolicy,
  type ReportQueue,
  type ReportQueueOptions,
  type ReportReader,
} from './queue.js'

/** The upper end of a stream, where handlers, loops and readers get its reports. */
export interface Consumption<Data> {
  /** Gives a report to the handlers and to an open loop; without either it waits in the queue. */
  deliver(report: Report): void
  /** A `report` handler was added: it gets the queued reports next, before any new one. */
  handlerAdded(): void
  /** A handler of this report returned a promise. Returns a function to call once that has settled. */
  handlerPromised(report: unknown): (() => void) | undefined
  read(): Promise<Report<Data>>
  iterate(): AsyncIterableIterator<Report<Data>>
  /** How many reports wait in the queue. */
  readonly queued: number
  /** Resolves when one more report would not overflow. */
  room(): Promise<void>
  /** After a failure the queued reports can still be taken; without one they are dropped. */
  end(failure?: Error): void
}

/** What a consumption needs of its stream. */
export interface ConsumptionParts extends Omit<ReportQueueOptions, 'slow' | 'consumed'> {
  /** Tracks which reports are not taken yet; undefined where this does not matter. */
  readonly outstanding: Outstanding | undefined
  /** Calls the `report` handlers; false where there are none. */
  emit(report: Report): boolean
  hasHandler(): boolean
  /** The queue is full: called once, until it is drained to half. */
  slow(queued: number, message: string): void
  /** Connects the stream, unless it is connected. */
  start(): void
  close(): Promise<void>
  /** Why the stream was closed. */
  reason(): unknown
}

/** Queued reports that a new handler gets in one tick of the event loop. */
const SLICE = 1024

const consequences: Readonly<Record<OverflowPolicy, string>> = {
  block: 'the connections are paused until half of them are',
  'drop-oldest': 'each new one drops the oldest',
  'latest-per-feed': 'each new one drops an older one',
  close: 'one more ends the stream',
}

/** Makes the upper end of a stream. */
export function createConsumption<Data>(parts: ConsumptionParts): Consumption<Data> {
  const { outstanding, hasHandler } = parts
  const { give, promised } = createHandlerCalls(parts.emit, outstanding)
  let reader: ReportReader | undefined
  let isIterated = false
  const queue =
    parts.size === 0
      ? undefined
      : createReportQueue({
          ...parts,
          slow(queued) {
            const isRead = isIterated || reader !== undefined || hasHandler()
            parts.slow(queued, describeWaiting(queued, parts.overflow, isRead))
          },
          consumed: report => outstanding?.release(report),
          dropped(report) {
            outstanding?.drop(report)
            parts.dropped(report)
          },
        })
  const handover = queue && createHandover(queue, hasHandler, giveQueued)

  function giveQueued(report: Report): void {
    give(report)
    outstanding?.release(report)
  }

  function enqueue(report: Report, to: ReportQueue): void {
    outstanding?.retain(report)
    to.push(report)
  }

  function createReader(): ReportReader {
    if (queue === undefined) {
      throw new ValidationError(
        'queue is 0, so no report waits: it must be at least 1 to read or iterate the stream',
      )
    }
    handover?.finish()
    return queue.createReader()
  }

  return {
    deliver(report) {
      outstanding?.begin(report)
      if (queue === undefined) give(report)
      else if (handover?.isRunning) enqueue(report, queue)
      else {
        // A handler that begins to read or to iterate gets the reports after this one.
        const isAwaited = queue.waiting > 0
        const isQueued = isIterated
        if (!give(report) || isQueued) enqueue(report, queue)
        else if (isAwaited) queue.show(report)
      }
      outstanding?.delivered(report)
    },
    handlerAdded() {
      // The reports that wait for a loop are the loop's.
      if (!isIterated) handover?.start()
    },
    handlerPromised: promised,
    async read() {
      reader ??= createReader()
      handover?.finish()
      parts.start()
      const report = reader.take() ?? (await reader.wait())
      if (report !== undefined) return report as Report<Data>
      throw new DataStreamsError('the stream was closed', {
        code: 'CLOSED',
        cause: parts.reason(),
      })
    },
    iterate() {
      const reader = createReader()
      isIterated = true
      return createReportIterator<Data>(reader, parts.start, parts.close)
    },
    get queued() {
      return queue?.length ?? 0
    },
    async room() {
      await outstanding?.room()
      await queue?.room()
    },
    end(failure) {
      if (failure !== undefined) handover?.finish()
      queue?.end(failure)
    },
  }
}

function describeWaiting(queued: number, overflow: OverflowPolicy, isRead: boolean): string {
  const waiting = `${queued} reports wait to be taken: ${consequences[overflow]}`
  if (isRead) return waiting
  return `${waiting}. Nothing takes them: add a report handler, iterate the stream, or give it the option queue: 0 if only plugins read it`
}

/** Calls the handlers. A report stays outstanding until the promises they return have settled. */
function createHandlerCalls(
  emit: (report: Report) => boolean,
  outstanding: Outstanding | undefined,
) {
  /** The report that the handlers are called with. */
  let current: Report | undefined

  return {
    give(report: Report): boolean {
      const before = current
      current = report
      const isHandled = emit(report)
      current = before
      return isHandled
    },
    promised(report: unknown): (() => void) | undefined {
      const waiting = current
      // A user can emit a report of their own.
      if (outstanding === undefined || waiting === undefined || waiting !== report) return undefined
      outstanding.retain(waiting)
      return () => outstanding.release(waiting)
    },
  }
}

/** Gives the reports of a queue to handlers that were added later. While it is running, new reports have to be queued. */
function createHandover(
  queue: ReportQueue,
  hasHandler: () => boolean,
  give: (report: Report) => void,
) {
  let isRunning = false

  function giveUpTo(most: number): void {
    for (let given = 0; given < most && hasHandler(); given++) {
      const report = queue.shift()
      if (report === undefined) break
      give(report)
    }
    isRunning = queue.length > 0 && hasHandler()
  }

  function giveSlices(): void {
    if (isRunning) giveUpTo(SLICE)
    if (isRunning) setImmediate(giveSlices)
  }

  return {
    get isRunning() {
      return isRunning
    },
    /** Begins in a microtask, and continues in later ticks of the event loop where there is much to give. */
    start() {
      if (isRunning || queue.length === 0) return
      isRunning = true
      queueMicrotask(giveSlices)
    },
    /** Gives the rest at once, so that handlers get it before a reader or the end. */
    finish() {
      if (isRunning) giveUpTo(Number.POSITIVE_INFINITY)
    },
  }
}
