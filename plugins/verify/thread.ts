// The program of a thread that recovers signers. The first message names the curve library. Each
// later message is a batch of reports. The thread answers the batches in their order.
import { receive } from '../../platform/threads.js'
import type { CurveLibraryChoice } from './options.js'
import { type Recovered, type Task, TimedRecovery } from './recovery.js'
import type { RecoveryAnswer } from './thread-recovery.js'

/** Settles when the batches so far are answered. So answers have the order of their batches. */
let last: Promise<TimedRecovery> | undefined

async function recoverAll(
  recovery: TimedRecovery,
  tasks: readonly Task[],
): Promise<RecoveryAnswer> {
  const recovered: Recovered[] = []
  for (const task of tasks) {
    let found = recovery.recover(task)
    while (found === undefined) {
      await recovery.replace()
      found = recovery.recover(task)
    }
    recovered.push(found)
  }
  return { recovered, timed: recovery.take() }
}

receive((message, answer) => {
  if (last === undefined) last = TimedRecovery.load(message as CurveLibraryChoice)
  else
    last = last.then(async recovery => {
      answer(await recoverAll(recovery, message as readonly Task[]))
      return recovery
    })
})
