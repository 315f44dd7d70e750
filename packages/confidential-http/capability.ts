/**
 * Makes a function that calls `work` at its first call. Later calls return the same value or throw
 * the same error.
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
export const CAPABILITY_NAME: 'confidential-http' = 'confidential-http'

/** The version of the capability. */
export const CAPABILITY_VERSION: '1.0.0-alpha' = '1.0.0-alpha'

/** The name of the capability with its version, as calls name it. */
export const CAPABILITY_ID: 'confidential-http@1.0.0-alpha' = `${CAPABILITY_NAME}@${CAPABILITY_VERSION}`

/** The only method of the capability. */
export const METHOD: 'SendRequest' = 'SendRequest'

/** A call to a runtime. */
export interface CapabilityCall {
  /** The capability that is called, with its version: `confidential-http@1.0.0-alpha`. */
  readonly capabilityId: string
  /** The method of the capability: `SendRequest`. */
  readonly method: string
  /** The request in its normal form. */
  readonly payload: unknown
  /**
   * The schema of the request, for a runtime that encodes protobuf. It is an option of the client.
   */
  readonly inputSchema?: unknown
  /**
   * The schema of the response, for a runtime that encodes protobuf. It is an option of the client.
   */
  readonly outputSchema?: unknown
  /** A signal that aborts when the caller cancels. */
  readonly signal?: AbortSignal
}

/** The reply of a runtime. The reply comes at once. The response to the request arrives later. */
export interface CapabilityReply {
  /** Blocks until the response has arrived. */
  result(): unknown
  /** Waits for the response without blocking. Absent if the runtime can only block. */
  resultAsync?(): Promise<unknown>
}

/** A value that arrives later. */
export interface Result<Value> {
  /** Blocks until the value has arrived. */
  result(): Value
}

/** The part of a runtime that the client uses. */
export interface CapabilityRuntime {
  /**
   * Calls a method of a capability. Returns a reply at once. The result of the reply arrives later.
   */
  callCapability(params: CapabilityCall): CapabilityReply
}
