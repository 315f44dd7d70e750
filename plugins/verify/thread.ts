// The program of a thread that recovers signers. The first message names the curve library. Each
// later message is a batch of reports. The thread answers the batches in their order.
import { receive } from '../../platform/threads.js'
import type { CurveLibraryChoice } from './options.js'
import { loadCurveLibrary, type Task, TimedRecovery } from './recovery.js'
import type { RecoveryAnswer } from './thread-recovery.js'

let loading: Promise<TimedRecovery> | undefined

async function load(choice: CurveLibraryChoice): Promise<TimedRecovery> {
  return new TimedRecovery(await loadCurveLibrary(choice))
}

async function recoverAll(
  loaded: Promise<TimedRecovery>,
  tasks: readonly Task[],
): Promise<RecoveryAnswer> {
  const recovery = await loaded
  const recovered = tasks.map(task => recovery.recover(task))
  return { recovered, timed: recovery.take() }
}

receive((message, answer) => {
  if (loading === undefined) loading = load(message as CurveLibraryChoice)
  else void recoverAll(loading, message as readonly Task[]).then(answer)
})
