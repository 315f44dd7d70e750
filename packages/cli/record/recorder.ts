import type { Report } from 'sluice/report'
import { keyOf } from '../output/feeds.js'

/**
 * The most characters that wait for the next flush. If there are more, they are written at once.
 */
const MOST = 1_048_576

/**
 * Collects reports as lines, writes them at a fixed interval, and acknowledges the reports that are
 * on the disk.
 */
export class Recorder {
  readonly #append: (text: string) => Promise<void>
  readonly #known: Set<string>
  readonly #timer: NodeJS.Timeout
  #text = ''
  #waiting: Report[] = []
  #written = 0
  #running: Promise<void> | undefined
  #fail: (error: unknown) => void = () => undefined
  /** Rejects when the files can't be written. */
  readonly failed: Promise<never> = new Promise<never>((_resolve, reject) => {
    this.#fail = reject
  })

  /** `known` holds the keys of the reports that the files contain already. */
  constructor(append: (text: string) => Promise<void>, known: Set<string>, flushMs: number) {
    this.#append = append
    this.#known = known
    this.failed.catch(() => undefined)
    this.#timer = setInterval(this.#flushSoon, flushMs)
  }

  /** How many reports this recorder has written to the disk. */
  get written(): number {
    return this.#written
  }

  readonly add = (report: Report): void => {
    if (this.#known.delete(keyOf(report))) {
      report.acknowledge()
      return
    }
    this.#text += lineOf(report)
    this.#waiting.push(report)
    if (this.#text.length > MOST) this.#flushSoon()
  }

  /** Writes the waiting reports. */
  flush(): Promise<void> {
    this.#running ??= this.#write().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Writes the waiting reports, and stops the regular writing. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  readonly #flushSoon = (): void => void this.flush().catch(this.#fail)

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const [lines, reports] = [this.#text, this.#waiting]
      this.#text = ''
      this.#waiting = []
      await this.#append(lines)
      this.#written += reports.length
      for (const report of reports) report.acknowledge()
    }
  }
}

function lineOf(report: Report): string {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport, source, originID } = report
  const times = { validFromTimestamp, observationsTimestamp }
  const line = { feedID, ...times, fullReport, source, originID, receivedAt: Date.now() }
  return `${JSON.stringify(line)}\n`
}
