/** The capability that makes confidential HTTP requests, as runtimes know it. */
export const CAPABILITY_ID: 'confidential-http@1.0.0-alpha' = 'confidential-http@1.0.0-alpha'

/** Its one method. */
export const METHOD: 'SendRequest' = 'SendRequest'

/** What a runtime is asked to do. */
export interface CapabilityCall {
  readonly capabilityId: string
  readonly method: string
  /** The request in its one normal form. */
  readonly payload: unknown
  /** What a runtime that encodes protobuf needs to know of the request; as the client was given it. */
  readonly inputSchema?: unknown
  /** What a runtime that encodes protobuf needs to know of the response; as the client was given it. */
  readonly outputSchema?: unknown
  /** Aborted when the caller has lost interest. */
  readonly signal?: AbortSignal
}

/** What a runtime answers at once; the response comes later. */
export interface CapabilityReply {
  /** Blocks until the response is there. */
  result(): unknown
  /** Waits for the response without blocking, where the runtime can. */
  resultAsync?(): Promise<unknown>
}

/** What the client needs of a runtime. */
export interface CapabilityRuntime {
  callCapability(params: CapabilityCall): CapabilityReply
}
