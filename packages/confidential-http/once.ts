/** Calls `work` once, at the first call, and returns the same value or throws the same error from then on. */
export function once<Value>(work: () => Value): () => Value {
  let outcome: { readonly value: Value } | { readonly error: unknown } | undefined
  function tryWork(): NonNullable<typeof outcome> {
    try {
      return { value: work() }
    } catch (error) {
      return { error }
    }
  }
  return function readOutcome() {
    outcome ??= tryWork()
    if ('error' in outcome) throw outcome.error
    return outcome.value
  }
}
