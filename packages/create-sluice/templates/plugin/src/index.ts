import type { Plugin } from 'sluice'
import { feedResolution } from 'sluice/report'

/** Drops reports that were observed more than `ms` milliseconds ago, by the client's clock. */
export function dropOld(ms: number): Plugin {
  return {
    name: 'drop-old',
    report: (next, { client }) =>
      function passYoung(report) {
        const unit = feedResolution(report.feedID) === 's' ? 1000 : 1
        if (client.now() - report.observationsTimestamp * unit <= ms) next(report)
      },
  }
}
