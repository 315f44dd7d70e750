// The program of a thread that recovers signers. The first message names the curve library; each further one is a batch of reports, and the
// batches are answered in their order.
import { receive } from '../../platform/threads.js'
import { type CurveLibraryChoice, loadCurveLibrary } from './curve-library.js'
import { createTimedRecovery, type Task, type TimedRecovery } from './recovery.js'
import type { Answer } from './recovery-worker.js'

let loading: Promise<TimedRecovery> | undefined

async function recoverAll(
  recovery: Promise<TimedRecovery>,
  tasks: readonly Task[],
): Promise<Answer> {
  const { recover, take } = await recovery
  const recovered = tasks.map(recover)
  return { recovered, timed: take() }
}

receive((message, answer) => {
  if (loading === undefined)
    loading = loadCurveLibrary(message as CurveLibraryChoice).then(createTimedRecovery)
  else void recoverAll(loading, message as readonly Task[]).then(answer)
})
