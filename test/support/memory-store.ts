import type { Candle } from '../../plugins/candles/index.js'
import type { SinkBatch, SinkPosition, SinkRefusal, SinkStore } from '../../plugins/sink/index.js'
import type { Report } from '../../report/report.js'

/** A store in memory, which can be away, hang, lose an answer, refuse reports, and die. */
export class MemoryStore implements SinkStore {
  readonly name = 'memory'
  readonly rows: Map<string, Report> = new Map()
  readonly candles: Map<string, Candle> = new Map()
  /** The sizes of the batches. */
  readonly batches: number[] = []
  kept: SinkPosition = {}
  opened = 0
  closed = 0
  /** Called before a batch is stored: it may throw, or wait. */
  before: (batch: SinkBatch) => unknown = () => undefined
  /** Called after a batch is stored: if it throws, the answer is lost. */
  after: (batch: SinkBatch) => unknown = () => undefined
  refuse: (report: Report) => string | undefined = () => undefined

  async open(): Promise<void> {
    this.opened++
  }

  async position(): Promise<SinkPosition> {
    return { ...this.kept }
  }

  async write(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    await this.before(batch)
    const refused: SinkRefusal[] = []
    for (const report of batch.reports) {
      const reason = this.refuse(report)
      if (reason === undefined) this.rows.set(keyOf(report), report)
      else refused.push({ report, reason })
    }
    for (const candle of batch.candles) {
      const key = `${candle.feedID} ${candle.interval} ${candle.start}`
      if ((this.candles.get(key)?.revision ?? -1) <= candle.revision) this.candles.set(key, candle)
    }
    if (batch.position !== undefined) this.kept = { ...this.kept, ...batch.position }
    this.batches.push(batch.reports.length)
    await this.after(batch)
    return refused
  }

  async close(): Promise<void> {
    this.closed++
  }

  /** The times of the stored reports of a feed, in order. */
  times(feedID: string): number[] {
    return [...this.rows.values()]
      .filter(report => report.feedID === feedID)
      .map(report => report.observationsTimestamp)
      .sort((one, other) => one - other)
  }
}

function keyOf({ feedID, observationsTimestamp }: Report): string {
  return `${feedID} ${observationsTimestamp}`
}
