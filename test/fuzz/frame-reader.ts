// Messages as a stream takes them off the wire, without the bound on how many of its errors are events.

import { createCounters } from '../../client/metrics.js'
import { Present } from '../../client/present.js'
import { Feeds } from '../../client/stream/feeds.js'
import { Intake, type Source } from '../../client/stream/intake.js'
import { createOrigins } from '../../client/stream/origins.js'
import { createDecoderTable } from '../../report/decoder.js'
import type { Report } from '../../report/report.js'

/** What came of a message: a report, an error, or neither. */
export type Outcome = Report | Error | undefined

/** Takes messages as a stream that is subscribed to these feeds does; the function says what it makes of one. */
export function openFrameReader(feeds: readonly string[]): { read(data: Uint8Array): Outcome } {
  let outcomes: (Report | Error)[] = []
  const add = (outcome: Report | Error): void => void outcomes.push(outcome)
  const subscribed = new Feeds()
  subscribed.add(feeds)
  const table = createDecoderTable([])
  const intake = new Intake({
    table,
    log: {},
    now: Date.now,
    counters: createCounters(),
    feeds: subscribed.states,
    present: new Present(Date.now, () => undefined),
    sink: add,
    fail: add,
  })
  const origin = 'wss://ws.example'
  const source: Source = {
    origin,
    traffic: createOrigins().of(origin),
    feedIDs: feeds,
    place: { next: 0, lead: 0 },
    rejections: { add, drop: () => undefined as never },
    junk: 0,
    lastReportAt: 0,
  }
  return {
    read(data) {
      outcomes = []
      source.junk = 0
      intake.receive(data, source)
      if (outcomes.length > 1) throw new Error(`a message came to ${outcomes.length} events`)
      return outcomes[0]
    },
  }
}
