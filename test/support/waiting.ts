export const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

/** The conditions that tests wait for. When a test fails, its environment tells them, and ends the waits. */
const realm = globalThis as { awaitedConditions?: Set<() => boolean> }
realm.awaitedConditions ??= new Set()
const awaited = realm.awaitedConditions

/** Waits until a condition is true. The limit of the test ends a wait for what does not come. */
export async function until(condition: () => boolean): Promise<void> {
  awaited.add(condition)
  try {
    while (!condition()) {
      await pause(5)
      if (!awaited.has(condition)) throw new Error('the test has ended')
    }
  } finally {
    awaited.delete(condition)
  }
}

/** Returns the error that a promise rejects with. */
export async function failureOf(
  promise: Promise<unknown>,
): Promise<Error & Record<string, unknown>> {
  let value: unknown
  try {
    value = await promise
  } catch (error) {
    return error as Error & Record<string, unknown>
  }
  throw new Error(`resolved, with ${String(value)}`)
}
