import { abortable, checkNumber, checkOptions, checkSignal, ValidationError } from 'sluice/core'
import { isThenable } from 'sluice/internal'
import {
  CAPABILITY_ID,
  CAPABILITY_NAME,
  CAPABILITY_VERSION,
  type CapabilityCall,
  type CapabilityReply,
  type CapabilityRuntime,
  METHOD,
  once,
  type Result,
} from './capability.js'
import { nameKind } from './request/fields.js'
import { normalizeRequest } from './request/normalize-request.js'
import { normalizeResponse } from './response/response.js'
import type { ConfidentialHTTPRequest, ConfidentialHTTPRequestJson, HTTPResponse } from './types.js'

/** Options of a ConfidentialHTTPClient. */
export interface ConfidentialHTTPClientOptions {
  /**
   * The schema of the request. The client passes the schema on with each call. A runtime that
   * encodes protobuf needs the schema.
   */
  readonly inputSchema?: unknown
  /**
   * The schema of the response, which the client passes on with each call. A runtime that encodes
   * protobuf needs the schema.
   */
  readonly outputSchema?: unknown
}

/** Makes HTTP requests through an enclave, which fills in the secrets. */
export class ConfidentialHTTPClient {
  /** The capability that the client calls, with its version. */
  static readonly CAPABILITY_ID: typeof CAPABILITY_ID = CAPABILITY_ID
  /** The name of the capability. */
  static readonly CAPABILITY_NAME: typeof CAPABILITY_NAME = CAPABILITY_NAME
  /** The version of the capability. */
  static readonly CAPABILITY_VERSION: typeof CAPABILITY_VERSION = CAPABILITY_VERSION
  readonly #schemas: ConfidentialHTTPClientOptions

  constructor(options: ConfidentialHTTPClientOptions = {}) {
    const { inputSchema, outputSchema } = checkOptions('ConfidentialHTTPClient', options, {
      inputSchema: true,
      outputSchema: true,
    })
    this.#schemas = {
      ...(inputSchema !== undefined && { inputSchema }),
      ...(outputSchema !== undefined && { outputSchema }),
    }
  }

  /**
   * Passes the request to the runtime at once. Throws ValidationError for an invalid request.
   * `result()` waits for the response. Every call of `result()` returns the same response or throws
   * the same error.
   */
  sendRequest(
    runtime: CapabilityRuntime,
    input: ConfidentialHTTPRequest | ConfidentialHTTPRequestJson,
  ): Result<HTTPResponse> {
    const reply = this.#call(runtime, input, undefined)
    return {
      result: once(function readResult() {
        const response = reply.result()
        if (!isThenable(response)) return normalizeResponse(response)
        response.then(undefined, () => undefined)
        throw new ValidationError('this runtime answers with a promise: use sendRequestAsync')
      }),
    }
  }

  /**
   * Makes the request and resolves with the response. Does not block if the runtime can answer
   * without blocking.
   */
  async sendRequestAsync(
    runtime: CapabilityRuntime,
    input: ConfidentialHTTPRequest | ConfidentialHTTPRequestJson,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<HTTPResponse> {
    const signal = checkSignal(
      'options.signal',
      checkOptions('sendRequestAsync', options, { signal: true }).signal,
    )
    signal?.throwIfAborted()
    const reply = this.#call(runtime, input, signal)
    const response = Promise.resolve(
      typeof reply.resultAsync === 'function' ? reply.resultAsync() : reply.result(),
    )
    return normalizeResponse(await (signal === undefined ? response : abortable(response, signal)))
  }

  #call(
    runtime: CapabilityRuntime,
    input: unknown,
    signal: AbortSignal | undefined,
  ): CapabilityReply {
    const payload = normalizeRequest(input)
    if (typeof (runtime as Partial<CapabilityRuntime> | undefined)?.callCapability !== 'function')
      throw new ValidationError(
        `runtime must have a function callCapability, which ${nameKind(runtime)} has not`,
      )
    const call: CapabilityCall = {
      capabilityId: CAPABILITY_ID,
      method: METHOD,
      payload,
      ...this.#schemas,
      ...(signal !== undefined && { signal }),
    }
    const reply = runtime.callCapability(call)
    if (typeof (reply as Partial<CapabilityReply> | undefined)?.result !== 'function')
      throw new ValidationError('runtime.callCapability must return an object with result()')
    return reply
  }
}

/** A bound on the calls of a workflow, in the JSON form of the workflow SDK. */
export interface CapabilityRestriction {
  /** The method, and the most calls of it. */
  method: { id: string; method: string; maxCalls: number }
}

/** The most that a protobuf message can count in this field. */
const MAX_CALLS = 4_294_967_295

/** Makes bounds that a workflow's hook gives to its runtime. */
export class ConfidentialHTTPRestrictor {
  /** Allows at most so many requests. */
  limitSendRequest(maxCalls: number): CapabilityRestriction {
    checkNumber('maxCalls', maxCalls, { min: 0, max: MAX_CALLS, whole: true })
    return { method: { id: CAPABILITY_ID, method: METHOD, maxCalls } }
  }
}
