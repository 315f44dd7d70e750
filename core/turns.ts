import { abortable } from './abortable.js'

/** Lets so many in at once; the others wait, first come, first served. */
export interface Turns {
  /** Resolves with a turn; rejects when the signal of all aborts. */
  take(): Promise<void>
  /** Passes the turn on. */
  give(): void
}

/** Turns for as long as the signal is not aborted. */
export function createTurns(places: number, signal: AbortSignal): Turns {
  const waiting: (() => void)[] = []
  let free = places
  return {
    take() {
      const turn =
        free-- > 0 ? Promise.resolve() : new Promise<void>(resolve => waiting.push(resolve))
      return abortable(turn, signal)
    },
    give() {
      free++
      waiting.shift()?.()
    },
  }
}
