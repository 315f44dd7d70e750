import type { IO } from '../io.js'

/** The progress bar of a long operation. */
export interface Progress {
  /** Sets the share that is done, from 0 to 1, and the text beside the bar. */
  update(share: number, text: () => string): void
  /** Removes the bar, so that the next text begins at the left. */
  end(): void
}

/** Milliseconds until the bar appears, so that short operations show none. */
const AFTER = 2000
/** Milliseconds between two drawings of the bar. */
const EVERY = 100
const WIDTH = 24

/**
 * Shows a bar on a terminal once an operation has taken two seconds. Shows nothing in a pipe. If
 * the command prints results on the same terminal, the bar needs `isAlone`: the results go to a
 * file or come later.
 */
export function createProgress({ stdout, stderr }: IO, isAlone = false): Progress {
  if (!stderr.isTTY || (stdout.isTTY && !isAlone))
    return { update: () => undefined, end: () => undefined }
  const start = performance.now()
  let drawnAt = start + AFTER - EVERY
  let isDrawn = false
  return {
    update(share, text) {
      const now = performance.now()
      if (now - drawnAt < EVERY) return
      drawnAt = now
      isDrawn = true
      const line = `${bar(share)} ${percent(share)}  ${text()}${timeLeft(share, now - start)}`
      stderr.write(`\r\x1b[2K${line.slice(0, (stderr.columns ?? 80) - 1)}`)
    },
    end() {
      if (isDrawn) stderr.write('\r\x1b[2K')
    },
  }
}

function bar(share: number): string {
  const full = Math.round(clamp(share) * WIDTH)
  return `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}`
}

function percent(share: number): string {
  return `${Math.floor(clamp(share) * 100)} %`.padStart(5)
}

function timeLeft(share: number, took: number): string {
  if (share <= 0.01) return ''
  const seconds = Math.ceil((took / share - took) / 1000)
  return `  ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share))
}
