/** Does its work when first called, and gives the same outcome from then on. */
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
