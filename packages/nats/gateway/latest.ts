import { type FrameFields, readFrame } from '../frame.js'
import type { ReportLog } from '../log.js'
import { timeAtEnd } from '../log-positions.js'
import { findLatest, type Turn } from '../scan.js'
import { feedOf } from '../subjects.js'

/** The newest report of a feed, as far as it is known. */
interface Newest {
  /** The time of its observation; -1 while it is unknown. */
  time: number
  /** The message that it is in, unless it was read. */
  data: Uint8Array | undefined
  report: FrameFields | undefined
}

/**
 * The newest reports of the feeds that were asked for. Each is searched in the log once. From then
 * on the messages are watched that the gateway gets anyway, so a further request asks the log
 * nothing.
 */
export class LatestReports {
  readonly #log: ReportLog
  /** Only feeds of the log have a report, so there are at most as many entries. */
  readonly #newest = new Map<string, Newest>()
  readonly #searches = new Map<string, Promise<FrameFields | undefined>>()

  constructor(log: ReportLog) {
    this.#log = log
  }

  /** Takes note of a message that was stored. */
  see(subject: string, data: Uint8Array): void {
    const feedID = feedOf(this.#log.prefix, subject)
    const newest = feedID === undefined ? undefined : this.#newest.get(feedID)
    if (feedID === undefined || newest === undefined) return
    const end = timeAtEnd(data)
    // Relays write the time at the end. A message of another form must be read.
    const report = end === Number.POSITIVE_INFINITY ? readFrame(data, feedID) : undefined
    const time = report?.observationsTimestamp ?? end
    if (time === Number.POSITIVE_INFINITY || time <= newest.time) return
    newest.time = time
    newest.report = report
    // Copies the bytes. They belong to a larger buffer, which would stay in memory.
    newest.data = report === undefined ? Uint8Array.from(data) : undefined
  }

  /** Finds the newest report of a feed. Concurrent searches share one. */
  async find(feedID: string, turn: Turn): Promise<FrameFields | undefined> {
    const searching = this.#searches.get(feedID)
    if (searching !== undefined) return searching
    const known = this.#known(feedID)
    if (known !== undefined) return known
    const search = this.#search(feedID, turn).finally(() => this.#searches.delete(feedID))
    this.#searches.set(feedID, search)
    return search
  }

  #known(feedID: string): FrameFields | undefined {
    const newest = this.#newest.get(feedID)
    if (newest?.data !== undefined) {
      newest.report = readFrame(newest.data, feedID)
      newest.data = undefined
    }
    // A message whose end gave another time than its report proves nothing.
    return newest?.report?.observationsTimestamp === newest?.time ? newest?.report : undefined
  }

  async #search(feedID: string, turn: Turn): Promise<FrameFields | undefined> {
    const newest: Newest = { time: -1, data: undefined, report: undefined }
    // Messages that are stored during the search are seen.
    this.#newest.set(feedID, newest)
    try {
      const found = await findLatest(this.#log, feedID, { turn })
      if (found !== undefined && found.observationsTimestamp >= newest.time)
        Object.assign(newest, { time: found.observationsTimestamp, data: undefined, report: found })
      const report = this.#known(feedID) ?? found
      if (report === undefined) this.#newest.delete(feedID)
      return report
    } catch (thrown) {
      this.#newest.delete(feedID)
      throw thrown
    }
  }
}
