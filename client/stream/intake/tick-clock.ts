import { setImmediate } from '../../../core/platform.js'

/** A clock that is read once in a turn of the event loop, however many messages the turn brings: reading it costs. */
export function createTickClock(now: () => number): () => number {
  let time: number | undefined
  function forget(): void {
    time = undefined
  }

  return function readClock() {
    if (time === undefined) {
      time = now()
      setImmediate(forget)
    }
    return time
  }
}
