import type { OptionNames } from 'sluice/core'
import type { CapabilityCall, Result } from '../capability.js'
import type { HTTPResponse } from '../types.js'
import type { ConsensusAggregation } from './node-mode.js'

/** The reply to a call to a capability. Both methods may be called, any number of times. */
export interface RuntimeReply<Output = HTTPResponse> {
  /** Blocks the thread until the answer has arrived. */
  result(): Output
  /** Waits for the answer without blocking. */
  resultAsync(): Promise<Output>
}

/** The members that a workflow's runtime has in both of its modes. */
export interface BaseRuntime<Config> {
  /** The workflow's configuration. */
  readonly config: Config
  /** Calls a capability: confidential HTTP, or one of the option `capabilities`. For all others, `result()` throws EnclaveError. */
  callCapability<Output = HTTPResponse>(call: CapabilityCall): RuntimeReply<Output>
  /** The time, of the option `now`. */
  now(): Date
  /** Writes a log line at the level info. The text is not redacted. */
  log(message: string): void
}

/** The runtime of a function in node mode. */
export interface NodeRuntime<Config> extends BaseRuntime<Config> {
  /** Tells the runtime of node mode from that of a workflow, for the type checker. */
  readonly _isNodeRuntime: true
}

/** Names the secret that a workflow asks for. */
export interface SecretRequest {
  /** The name of the secret. */
  readonly id?: string | undefined
  /** @default 'main' */
  readonly namespace?: string | undefined
}

/** A secret that a workflow has asked for. */
export interface WorkflowSecret {
  /** The name of the protobuf message. */
  readonly $typeName: 'sdk.v1alpha.Secret'
  /** The name that was asked for. */
  readonly id: string
  /** The namespace that it was found in. */
  readonly namespace: string
  /** The owner of the secret: an address. */
  readonly owner: string
  /** The secret itself. */
  readonly value: string
}

/** A report for the network to sign. */
export interface ReportRequest {
  /** Bytes, or their base64. */
  readonly encodedPayload?: Uint8Array | string | undefined
  /** The encoder of the report; `evm` for contracts of EVM networks. */
  readonly encoderName?: string | undefined
  /** The algorithm of the signatures, such as `ecdsa`. */
  readonly signingAlgo?: string | undefined
  /** The hash that is signed, such as `keccak256`. */
  readonly hashingAlgo?: string | undefined
}

/** The runtime of a workflow's handler, with the interface of the real SDK's runtime. */
export interface WorkflowRuntime<Config, Report> extends BaseRuntime<Config> {
  /** Returns a secret with its value, in this thread: only secrets in `vaultDonSecrets` stay in the enclave. */
  getSecret(request: SecretRequest): Result<WorkflowSecret>
  /** Returns several secrets with their values, by their id. */
  getSecrets(requests: readonly SecretRequest[]): Result<Record<string, WorkflowSecret>>
  /** Runs a function as the one node of a network would. The function can't use the runtime itself. */
  runInNodeMode<Arguments extends unknown[], Input, Output = Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    consensusAggregation: ConsensusAggregation<Input>,
    unwrapOptions?: unknown,
  ): (...args: Arguments) => Result<Output>
  /** Makes a report with the option `report`. */
  report(input: ReportRequest): Result<Report>
}

/** Options of a workflow's runtime. */
export interface WorkflowOptions<Config, Report> {
  /** The workflow's configuration. */
  readonly config?: Config
  /** The time, in milliseconds of Unix time. @default Date.now */
  readonly now?: () => number
  /** Handlers for calls to other capabilities, by their id: the returned value is the response, a thrown error the error. */
  readonly capabilities?: Readonly<Record<string, (call: CapabilityCall) => unknown>>
  /**
   * Makes a report, such as `new Report({ … })` of the real SDK. Without this, `report().result()` throws, because there is no
   * network to sign it.
   */
  readonly report?: (
    request: Required<ReportRequest> & { readonly encodedPayload: Uint8Array },
  ) => Report
}

/** The names of these options. */
export const workflowNames: OptionNames<WorkflowOptions<unknown, unknown>> = {
  config: true,
  now: true,
  capabilities: true,
  report: true,
}
