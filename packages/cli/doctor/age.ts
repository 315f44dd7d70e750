import type { Report } from 'sluice/report'
import { feedResolution } from 'sluice/report'
import type { Context } from './context.js'

/** Milliseconds by which this machine's clock is to be corrected; 0 where no error is seen. */
export async function correctionOf({ clock }: Pick<Context, 'clock'>): Promise<number> {
  const reading = await clock().catch(() => undefined)
  return reading !== undefined && Math.abs(reading.offset) > reading.error ? reading.offset : 0
}

/** Milliseconds since the observations of a report, by the service's clock. */
export async function ageOf(
  context: Pick<Context, 'clock'>,
  report: Pick<Report, 'feedID' | 'observationsTimestamp'>,
): Promise<number> {
  return Date.now() + (await correctionOf(context)) - observedAt(report)
}

/** The time of a report's observations, in Unix milliseconds. */
export function observedAt({
  feedID,
  observationsTimestamp,
}: Pick<Report, 'feedID' | 'observationsTimestamp'>): number {
  return feedResolution(feedID) === 's' ? observationsTimestamp * 1000 : observationsTimestamp
}

/** Milliseconds as people read them: `0.4 s`, `3 min`, `2 days`. */
export function formatSeconds(ms: number): string {
  const seconds = ms / 1000
  if (Math.abs(seconds) < 100) return `${seconds.toFixed(1)} s`
  if (Math.abs(seconds) < 6000) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86_400)} days`
}
