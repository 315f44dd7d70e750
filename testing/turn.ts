import { runInside } from '../platform/globals.js'
import { startVirtualTime, type VirtualTime, type VirtualTimeOptions } from './virtual-time.js'

/** What a test that uses virtual time may do while it runs. */
export interface Turn {
  /** Installs a virtual time for the code of the test. It rejects once another test has begun. */
  startTime(options?: VirtualTimeOptions): VirtualTime
}

/** A test that runs. */
interface Running {
  /** Makes the test reject, and hands back the clocks and timers. */
  end(by: string): void
  /** Resolves when the test does nothing more. */
  readonly over: Promise<void>
}

/** The test that runs. All copies of the library in a realm share it. */
const RUNNING: unique symbol = Symbol.for('sluice.test-in-virtual-time')

/**
 * Runs a test that uses virtual time. Other code keeps the real clocks and timers meanwhile, where
 * the platform can tell it apart.
 *
 * A test runner gives a test up after a limit, tells it nothing, and begins the next one. So a test
 * that begins ends the one that still runs.
 */
export async function takeTurn<Value>(
  name: string,
  run: (turn: Turn) => Promise<Value>,
): Promise<Value> {
  const shared = globalThis as { [RUNNING]?: Running }
  let ended: Error | undefined
  let time: VirtualTime | undefined
  let finish: () => void = () => undefined
  const mine: Running = {
    end(by) {
      ended ??= new Error(
        `${name} was ended by ${by}, which began before this test was over. Either the test runner gave this test up after its time limit, or the two tests run beside each other: await one before the other`,
      )
      time?.end(ended)
    },
    over: new Promise(resolve => {
      finish = resolve
    }),
  }
  const previous = shared[RUNNING]
  shared[RUNNING] = mine
  try {
    previous?.end(name)
    await previous?.over
    return await runInside(isInside =>
      run({
        startTime(options) {
          if (ended !== undefined) throw ended
          time = startVirtualTime({ ...options, isInside })
          return time
        },
      }),
    )
  } finally {
    if (shared[RUNNING] === mine) delete shared[RUNNING]
    finish()
  }
}
