import type { Stream } from 'sluice/client'

/** Milliseconds between two looks at the speed of verification. */
const LOOK_INTERVAL = 250

/**
 * Prints which curve library verifies the reports of a stream, and about how many a second it can
 * verify: when that is measured, and again if another library takes its place. A stream without
 * `verify` prints nothing.
 */
export function noteVerification(stream: Stream, note: (line: string) => void): void {
  let noted: string | undefined
  function look(): void {
    const {
      curveLibrary,
      threads = 0,
      f,
      reportsPerSecond,
    } = stream.getMetrics().verification ?? {}
    if (reportsPerSecond === undefined || curveLibrary === noted) return
    noted = curveLibrary
    const place = threads === 0 ? 'the event loop' : `${threads} thread${threads === 1 ? '' : 's'}`
    note(
      `verification: ${curveLibrary} in ${place}, about ${reportsPerSecond} reports a second of f ${f}`,
    )
  }
  const timer = setInterval(look, LOOK_INTERVAL)
  timer.unref()
  const end = (): void => clearInterval(timer)
  stream.closed.then(end, end)
}
