// The program of a thread that recovers signers. The first message names the curve library, and is
// answered once the library is loaded. Each later message is a batch of reports. The thread answers
// the batches in their order, a long one in parts.
import { receive } from '../../platform/threads.js'
import type { CurveLibraryChoice } from './options.js'
import { type Recovered, type Task, TimedRecovery } from './recovery.js'
import type { RecoveryAnswer } from './thread-recovery.js'

/** Settles when the batches so far are answered. So answers have the order of their batches. */
let last: Promise<TimedRecovery> | undefined

/** Milliseconds of work after which the results so far are sent. */
const PART = 500

type Send = (answer: RecoveryAnswer) => void

async function recoverAll(
  recovery: TimedRecovery,
  tasks: readonly Task[],
  send: Send,
): Promise<void> {
  let recovered: Recovered[] = []
  let begun = performance.now()
  for (const task of tasks) {
    if (recovered.length > 0 && performance.now() - begun > PART) {
      send({ recovered, timed: recovery.take() })
      recovered = []
      begun = performance.now()
    }
    let found = recovery.recover(task)
    while (found === undefined) {
      await recovery.replace()
      found = recovery.recover(task)
    }
    recovered.push(found)
  }
  send({ recovered, timed: recovery.take() })
}

receive((message, send: Send) => {
  if (last === undefined)
    last = TimedRecovery.load(message as CurveLibraryChoice).then(recovery => {
      send({ recovered: [], timed: recovery.take() })
      return recovery
    })
  else
    last = last.then(async recovery => {
      await recoverAll(recovery, message as readonly Task[], send)
      return recovery
    })
})
