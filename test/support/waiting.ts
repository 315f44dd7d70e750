export const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

/** Waits until a condition is true; after `ms` milliseconds it throws an error that shows the condition. */
export async function until(condition: () => boolean, ms = 10_000): Promise<void> {
  const end = performance.now() + ms
  while (!condition()) {
    if (performance.now() > end)
      throw new Error(`did not come true within ${ms} ms: ${String(condition)}`)
    await pause(5)
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
