import type { Report } from 'sluice/report'
import type { RecordingFiles } from './files.js'
import { keyOf } from './known.js'

/** Writes reports into files, and acknowledges them once they are on the disk. */
export interface Recorder {
  add(report: Report): void
  /** How many reports are on the disk by this recorder. */
  readonly written: number
  /** Writes what waits. */
  flush(): Promise<void>
  /** Rejects when the files can't be written. */
  readonly failed: Promise<never>
  /** Writes what waits, and ends. */
  close(): Promise<void>
}

/** Characters that wait; more are written at once. */
const MOST = 1_048_576

/** Makes a recorder. What `known` names is in the files already. */
export function createRecorder(
  files: RecordingFiles,
  known: Set<string>,
  flushMs: number,
): Recorder {
  let text = ''
  let waiting: Report[] = []
  let written = 0
  let running: Promise<void> | undefined
  let fail: (error: unknown) => void
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject
  })
  failed.catch(() => undefined)

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const [lines, reports] = [text, waiting]
      text = ''
      waiting = []
      await files.append(lines)
      written += reports.length
      for (const report of reports) report.acknowledge()
    }
  }

  function flush(): Promise<void> {
    running ??= write().finally(() => {
      running = undefined
    })
    return running
  }

  const flushSoon = (): void => void flush().catch(fail)
  const timer = setInterval(flushSoon, flushMs)
  return {
    get written() {
      return written
    },
    failed,
    flush,
    add(report) {
      if (known.delete(keyOf(report))) {
        report.acknowledge()
        return
      }
      text += lineOf(report)
      waiting.push(report)
      if (text.length > MOST) flushSoon()
    },
    async close() {
      clearInterval(timer)
      await flush()
    },
  }
}

function lineOf(report: Report): string {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport, source, originID } = report
  const line = {
    feedID,
    validFromTimestamp,
    observationsTimestamp,
    fullReport,
    source,
    originID,
    receivedAt: Date.now(),
  }
  return `${JSON.stringify(line)}\n`
}
