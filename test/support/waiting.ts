export const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

/** Waits until a condition is true. The test's own limit ends a wait for what does not come. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await pause(5)
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
