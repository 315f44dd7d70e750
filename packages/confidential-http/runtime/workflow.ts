import {
  checkFunction,
  isStreamsError,
  type Log,
  optional,
  type Rule,
  unchecked,
  withDefault,
} from 'sluice/core'
import { checkObject } from 'sluice/internal'
import { EnclaveError, VaultError } from 'sluice/plugins/confidential-http'
import { CAPABILITY_ID, type CapabilityCall, METHOD, once, type Result } from '../capability.js'
import { readBytes } from '../request/fields.js'
import type { ReleasedSecret, SecretKey } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import { type ConsensusAggregation, observeOnce, unwrapValue } from './node-mode.js'

/** The reply to a call to a capability. Both methods may be called any number of times. */
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
  /**
   * Calls a capability: confidential HTTP, or a capability of the option `capabilities`. For all
   * other capabilities, `result()` throws EnclaveError.
   */
  callCapability<Output = HTTPResponse>(call: CapabilityCall): RuntimeReply<Output>
  /** The time from the option `now`. */
  now(): Date
  /** Writes a log line at the level `info`. The text is not redacted. */
  log(message: string): void
}

/** The runtime of a function in node mode. */
export interface NodeRuntime<Config> extends BaseRuntime<Config> {
  /** Distinguishes, for the type checker, the runtime of node mode from that of a workflow. */
  readonly _isNodeRuntime: true
}

/** The name of a secret that a workflow asks for. */
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
  /** The name that the workflow asked for. */
  readonly id: string
  /** The namespace in which the secret was found. */
  readonly namespace: string
  /** The owner of the secret: an address. */
  readonly owner: string
  /** The secret itself. */
  readonly value: string
}

/** A report for the network to sign. */
export interface ReportRequest {
  /** The payload: bytes, or their base64. */
  readonly encodedPayload?: Uint8Array | string | undefined
  /** The encoder of the report: `evm` for contracts of EVM networks. */
  readonly encoderName?: string | undefined
  /** The algorithm of the signatures, such as `ecdsa`. */
  readonly signingAlgo?: string | undefined
  /** The hash that is signed, such as `keccak256`. */
  readonly hashingAlgo?: string | undefined
}

/** The runtime of a workflow's handler, with the interface of the real SDK's runtime. */
export interface WorkflowRuntime<Config, Report> extends BaseRuntime<Config> {
  /**
   * Returns a secret with its value, in this thread. Only secrets in `vaultDonSecrets` stay in the
   * enclave.
   */
  getSecret(request: SecretRequest): Result<WorkflowSecret>
  /** Returns several secrets with their values, by their `id`. */
  getSecrets(requests: readonly SecretRequest[]): Result<Record<string, WorkflowSecret>>
  /**
   * Runs a function as a network with a single node would run it. The function can't use the
   * runtime itself.
   */
  runInNodeMode<Arguments extends unknown[], Input, Output = Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    consensusAggregation: ConsensusAggregation<Input>,
    unwrapOptions?: unknown,
  ): (...args: Arguments) => Result<Output>
  /** Makes a report with the function in the option `report`. */
  report(input: ReportRequest): Result<Report>
}

/** Handlers for calls to capabilities, by the id of the capability. */
type Capabilities = Readonly<Record<string, (call: CapabilityCall) => unknown>>

/** Makes a report from its bytes and settings. */
type MakeReport<Report> = (
  request: Required<ReportRequest> & { readonly encodedPayload: Uint8Array },
) => Report

/** Options of a workflow's runtime. */
export interface WorkflowOptions<Config, Report> {
  /** The workflow's configuration. */
  readonly config?: Config
  /** The time, in milliseconds of Unix time. @default Date.now */
  readonly now?: () => number
  /**
   * Handlers for calls to other capabilities, by the id of the capability. The value that a handler
   * returns is the response. If the handler throws, the call fails with that error.
   */
  readonly capabilities?: Capabilities
  /**
   * Makes a report, such as `new Report({ … })` of the real SDK. Without this option,
   * `report().result()` throws, because there is no network to sign the report.
   */
  readonly report?: MakeReport<Report>
}

/** The rules of these options. */
export const workflowRules: {
  readonly config: Rule<unknown>
  readonly now: Rule<() => number>
  readonly capabilities: Rule<Capabilities>
  readonly report: Rule<MakeReport<unknown> | undefined>
} = {
  config: unchecked,
  now: withDefault(() => Date.now(), checkFunction<() => number>),
  capabilities: withDefault({}, checkCapabilities),
  report: optional(checkFunction<MakeReport<unknown>>),
}

function checkCapabilities(field: string, given: unknown): Capabilities {
  const capabilities = checkObject(field, given as Capabilities)
  for (const [id, handler] of Object.entries(capabilities)) checkFunction(id, handler)
  return capabilities
}

/** The checked options of a workflow's runtime. */
export interface CheckedWorkflow {
  readonly config?: unknown
  readonly now: () => number
  readonly capabilities: Capabilities
  readonly report?: MakeReport<unknown>
}

/** The services that a workflow's runtime uses. */
export interface WorkflowServices {
  /** Makes a confidential request. */
  send(call: CapabilityCall): RuntimeReply
  /**
   * Asks the enclave for the values of secrets. The returned function blocks until the values have
   * arrived.
   */
  readSecrets(names: readonly SecretKey[]): () => readonly ReleasedSecret[]
  readonly log: Log
}

/** Makes a workflow's runtime with services that carry out confidential requests. */
export function createWorkflowRuntime<Config, Report>(
  { config, now, capabilities, report: makeReport }: CheckedWorkflow,
  { send, readSecrets, log }: WorkflowServices,
): WorkflowRuntime<Config, Report> {
  let isInNodeMode = false
  const base = {
    config: config as Config,
    now: () => new Date(now()),
    log: (message: string) => log.info?.(String(message)),
  }

  function callCapability<Output>(call: CapabilityCall): RuntimeReply<Output> {
    const { capabilityId, method } = checkObject('call', call)
    const other = Object.hasOwn(capabilities, capabilityId) ? capabilities[capabilityId] : undefined
    if (other !== undefined) return replyOf(once(() => other(call) as Output))
    if (capabilityId === CAPABILITY_ID && method === METHOD)
      return send(call) as RuntimeReply<unknown> as RuntimeReply<Output>
    return replyOf(throwing(notFound(capabilityId, method)))
  }

  /** Calls `ask`. In node mode, returns a result that throws instead. */
  const outsideNodeMode = <Value>(ask: () => Result<Value>): Result<Value> =>
    isInNodeMode ? { result: throwing(wrongMode('Runtime inside')) } : ask()

  function runOnNode<Arguments extends unknown[], Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    args: Arguments,
  ): Input {
    let hasEnded = false
    const nodeRuntime: NodeRuntime<Config> = {
      ...base,
      _isNodeRuntime: true,
      callCapability: call =>
        hasEnded ? replyOf(throwing(wrongMode('NodeRuntime outside'))) : callCapability(call),
    }
    isInNodeMode = true
    try {
      return fn(nodeRuntime, ...args)
    } finally {
      isInNodeMode = false
      hasEnded = true
    }
  }

  /** Requests secrets. `describe` adds the advice of the real SDK to an error message. */
  function request(
    requests: readonly SecretRequest[],
    describe: (why: string) => string,
  ): Result<Record<string, WorkflowSecret>> {
    // An empty namespace means `main`, as for the vault and the real SDK.
    const names = requests.map(({ id = '', namespace }) => ({
      key: id,
      namespace: namespace || 'main',
    }))
    const twice = names.find(({ key }, index) => names.findIndex(each => each.key === key) < index)
    if (twice !== undefined)
      return {
        result: throwing(new VaultError(describe(`duplicate secret id requested: ${twice.key}`))),
      }
    if (names.length === 0) return { result: () => ({}) }
    const read = readSecrets(names)
    return {
      result: once(function readResult() {
        try {
          const secrets = read().map((secret, index) => {
            const { key: id, namespace } = names[index] as SecretKey
            return [id, { $typeName: 'sdk.v1alpha.Secret', id, namespace, ...secret }]
          })
          return Object.fromEntries(secrets)
        } catch (thrown) {
          if (!isStreamsError(thrown)) throw thrown
          throw new VaultError(describe(thrown.message), { code: thrown.code, cause: thrown })
        }
      }),
    }
  }

  function getSecrets(requests: readonly SecretRequest[]): Result<Record<string, WorkflowSecret>> {
    return request(
      requests,
      why =>
        `batch secret retrieval failed for ${requests.length} request(s):\n${why}\nVerify the host response is complete and that the workflow has access to the requested secrets`,
    )
  }

  function getSecret({ id = '', namespace }: SecretRequest): Result<WorkflowSecret> {
    const secrets = request(
      [{ id, namespace }],
      why =>
        `secret retrieval failed for ${id || 'unknown'} (namespace: ${namespace || 'main'}): ${why}. Verify the secret name is correct and that the secret has been configured for this workflow`,
    )
    return { result: () => secrets.result()[id] as WorkflowSecret }
  }

  function report(input: ReportRequest): Result<Report> {
    if (makeReport === undefined)
      return { result: throwing(notFound('consensus@1.0.0-alpha', 'Report')) }
    const { encodedPayload = '', encoderName = '', signingAlgo = '', hashingAlgo = '' } = input
    const bytes = readBytes({ path: 'encodedPayload', value: encodedPayload })
    const request = { encodedPayload: bytes, encoderName, signingAlgo, hashingAlgo }
    return { result: once(() => makeReport(request) as Report) }
  }

  return {
    ...base,
    callCapability: call =>
      isInNodeMode ? replyOf(throwing(wrongMode('Runtime inside'))) : callCapability(call),
    getSecrets: requests => outsideNodeMode(() => getSecrets(requests)),
    getSecret: request => outsideNodeMode(() => getSecret(request)),
    runInNodeMode:
      <Arguments extends unknown[], Input, Output = Input>(
        fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
        consensusAggregation: ConsensusAggregation<Input>,
        unwrapOptions?: unknown,
      ) =>
      (...args: Arguments): Result<Output> =>
        outsideNodeMode(() => {
          const read = observeOnce(() => runOnNode(fn, args), consensusAggregation)
          return { result: once(() => unwrapValue(read(), unwrapOptions) as Output) }
        }),
    report: input => outsideNodeMode(() => report(input)),
  }
}

function notFound(capabilityId: unknown, method: unknown): EnclaveError {
  return capabilityError(
    `Capability '${String(capabilityId)}' not found: the host rejected the call to method '${String(method)}'. Verify the capability ID is correct and the capability is available in this CRE environment`,
  )
}

function wrongMode(use: string): EnclaveError {
  return capabilityError(`cannot use ${use} RunInNodeMode`)
}

function capabilityError(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'CAPABILITY', mayHaveBeenSent: false })
}

/** Returns a function that throws the error. */
function throwing(error: Error): () => never {
  return function throwError() {
    throw error
  }
}

function replyOf<Output>(result: () => Output): RuntimeReply<Output> {
  return {
    result,
    async resultAsync() {
      return result()
    },
  }
}
