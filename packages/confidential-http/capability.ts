/**
 * Calls `work` once, at the first call, and returns the same value or throws the same error from
 * then on.
 */
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

/** The capability that makes confidential HTTP requests. */
export const CAPABILITY_ID: 'confidential-http@1.0.0-alpha' = 'confidential-http@1.0.0-alpha'

/** Its one method. */
export const METHOD: 'SendRequest' = 'SendRequest'

/** A call to a runtime. */
export interface CapabilityCall {
  /** The capability that is called, with its version: `confidential-http@1.0.0-alpha`. */
  readonly capabilityId: string
  /** The method of the capability: `SendRequest`. */
  readonly method: string
  /** The request in its normal form. */
  readonly payload: unknown
  /** Describes the request for a runtime that encodes protobuf; an option of the client. */
  readonly inputSchema?: unknown
  /** Describes the response for a runtime that encodes protobuf; an option of the client. */
  readonly outputSchema?: unknown
  /** Aborts when the caller cancels. */
  readonly signal?: AbortSignal
}

/** The reply of a runtime. It comes at once, the response later. */
export interface CapabilityReply {
  /** Blocks until the response has arrived. */
  result(): unknown
  /** Waits for the response without blocking, if the runtime can. */
  resultAsync?(): Promise<unknown>
}

/** A value that arrives later. */
export interface Result<Value> {
  /** Blocks until the value has arrived. */
  result(): Value
}

/** The part of a runtime that the client uses. */
export interface CapabilityRuntime {
  /** Calls a method of a capability; the reply comes at once, its result later. */
  callCapability(params: CapabilityCall): CapabilityReply
}
