import { startVirtualTime } from '../../testing/virtual-time.js'

/** Does work that waits for timers alone, in a time that passes while it waits. */
export async function inVirtualTime<Value>(work: () => Promise<Value>): Promise<Value> {
  const time = startVirtualTime()
  try {
    let isDone = false
    const done = work().finally(() => {
      isDone = true
    })
    done.catch(() => undefined)
    await time.until(() => isDone, 1e9)
    if (!isDone) throw new Error('the work waits for something that is no timer')
    return await done
  } finally {
    time.end()
  }
}
