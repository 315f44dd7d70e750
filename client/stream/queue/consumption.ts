import { DataStreamsError, ValidationError } from '../../../core/errors.js'
import { setImmediate } from '../../../core/platform.js'
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

/** The upper end of a stream: where its reports are given to handlers, loops and readers. */
export interface Consumption<Data> {
  /** Gives a report to the handlers and to an open loop; with neither, it waits in the queue. */
  deliver(report: Report): void
  /** A `report` handler was added: what waits is given to the handlers next, before anything new. */
  handlerAdded(): void
  /** A handler of this report has promised something: the function returned says that it has settled. */
  handlerPromised(report: unknown): (() => void) | undefined
  read(): Promise<Report<Data>>
  iterate(): AsyncIterableIterator<Report<Data>>
  /** How many reports wait in the queue. */
  readonly queued: number
  /** Resolves when a report more would not overflow. */
  room(): Promise<void>
  /** After a failure what is queued can still be taken; without one nothing more is given. */
  end(failure?: Error): void
}

/** What the upper end of a stream needs of it. */
export interface ConsumptionParts extends Omit<ReportQueueOptions, 'slow' | 'consumed'> {
  /** What keeps account of reports not taken yet, where anybody wants to know. */
  readonly outstanding: Outstanding | undefined
  /** Emits `report`; true where there is a handler. */
  emit(report: Report): boolean
  hasHandler(): boolean
  /** So many reports wait, and what that means: once, until half of them are taken. */
  slow(queued: number, message: string): void
  /** Connects the stream, unless it is connected. */
  start(): void
  close(): Promise<void>
  /** Why the stream was closed. */
  reason(): unknown
}

/** Reports that waited and are given to a new handler before anything else has its turn. */
const SLICE = 1024

const consequences: Readonly<Record<OverflowPolicy, string>> = {
  block: 'the connections are held back until half of them are',
  'drop-oldest': 'for each that comes the oldest is dropped',
  'latest-per-feed': 'for each that comes an older one is dropped',
  close: 'one more ends the stream',
}

/** Makes the upper end of a stream. */
export function createConsumption<Data>(parts: ConsumptionParts): Consumption<Data> {
  const { outstanding, emit, hasHandler } = parts
  let reader: ReportReader | undefined
  let isIterated = false
  /** What waits is being given to handlers that were added since. */
  let isDraining = false
  /** The report that is with its handlers. */
  let current: Report | undefined
  const queue =
    parts.size === 0
      ? undefined
      : createReportQueue({
          ...parts,
          slow: queued => parts.slow(queued, describeWaiting(queued)),
          consumed: report => outstanding?.release(report),
          dropped(report) {
            outstanding?.drop(report)
            parts.dropped(report)
          },
        })

  function describeWaiting(queued: number): string {
    const waiting = `${queued} reports wait to be taken: ${consequences[parts.overflow]}`
    if (isIterated || reader !== undefined || hasHandler()) return waiting
    return `${waiting}. Nobody takes them: add a report handler, iterate the stream, or give it the option queue: 0 if only plugins read it`
  }

  function give(report: Report): boolean {
    const before = current
    current = report
    const isHandled = emit(report)
    current = before
    return isHandled
  }

  function enqueue(report: Report, to: ReportQueue): void {
    outstanding?.hold(report)
    to.push(report)
  }

  function drain(most: number): void {
    for (let given = 0; given < most && hasHandler(); given++) {
      const report = queue?.shift()
      if (report === undefined) break
      give(report)
      outstanding?.release(report)
    }
    isDraining = (queue?.length ?? 0) > 0 && hasHandler()
  }

  function drainInTurns(): void {
    if (!isDraining) return
    drain(SLICE)
    if (isDraining) setImmediate(drainInTurns)
  }

  /** Handlers that were there first are given what waited first. */
  function finishDraining(): void {
    if (isDraining) drain(Number.POSITIVE_INFINITY)
  }

  function createReader(): ReportReader {
    if (queue === undefined) {
      throw new ValidationError(
        'queue is 0, so no report waits: it must be at least 1 to read or iterate the stream',
      )
    }
    finishDraining()
    return queue.createReader()
  }

  return {
    deliver(report) {
      outstanding?.begin(report)
      if (queue === undefined) give(report)
      else if (isDraining) enqueue(report, queue)
      else {
        const isWaitedFor = queue.waiting > 0
        const isQueued = isIterated
        if (!give(report) || isQueued) enqueue(report, queue)
        else if (isWaitedFor) queue.show(report)
      }
      outstanding?.delivered(report)
    },
    handlerAdded() {
      // What waits for a loop is the loop's.
      if (queue === undefined || queue.length === 0 || isDraining || isIterated) return
      isDraining = true
      queueMicrotask(drainInTurns)
    },
    handlerPromised(report) {
      const held = current
      if (outstanding === undefined || held === undefined || held !== report) return undefined
      outstanding.hold(held)
      return () => outstanding.release(held)
    },
    async read() {
      reader ??= createReader()
      finishDraining()
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
      return createReportIterator<Data>({ reader, start: parts.start, close: parts.close })
    },
    get queued() {
      return queue?.length ?? 0
    },
    async room() {
      await outstanding?.room()
      await queue?.room()
    },
    end(failure) {
      if (failure !== undefined) finishDraining()
      queue?.end(failure)
    },
  }
}
