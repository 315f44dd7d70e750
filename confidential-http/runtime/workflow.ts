import { ValidationError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { checkOptions } from '../../core/options.js'
import { VaultError } from '../../local/vault/errors.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { CAPABILITY_ID, type CapabilityCall, METHOD } from '../capability.js'
import { once } from '../once.js'
import { readBytes } from '../request/byte-fields.js'
import type { ReleasedSecret, SecretKey } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import { type ConsensusAggregation, observeOnce, unwrapValue } from './node-mode.js'

/** What comes later. */
export interface Result<Value> {
  /** However often it is called, it gives the same, or throws the same error. */
  result(): Value
}

/** What a call to a capability comes to. Both ways may be taken, any number of times. */
export interface RuntimeReply<Output = HTTPResponse> {
  /** Blocks the thread until the answer is there. */
  result(): Output
  /** The same without blocking. */
  resultAsync(): Promise<Output>
}

/** What a workflow has in both of its modes. */
export interface BaseRuntime<Config> {
  /** The workflow's configuration. */
  readonly config: Config
  callCapability<Output = HTTPResponse>(call: CapabilityCall): RuntimeReply<Output>
  now(): Date
  /** Writes a line, with the level info, as it is: what the workflow puts into it is its own affair. */
  log(message: string): void
}

/** What a function has that runs in node mode. */
export interface NodeRuntime<Config> extends BaseRuntime<Config> {
  readonly _isNodeRuntime: true
}

/** Which secret a workflow asks for. */
export interface SecretRequest {
  readonly id?: string | undefined
  /** @default 'main' */
  readonly namespace?: string | undefined
}

/** A secret whose value the workflow asked for. */
export interface WorkflowSecret {
  readonly $typeName: 'sdk.v1alpha.Secret'
  readonly id: string
  readonly namespace: string
  readonly owner: string
  readonly value: string
}

/** What is to be signed by the network. */
export interface ReportRequest {
  /** Bytes, or their base64. */
  readonly encodedPayload?: Uint8Array | string | undefined
  readonly encoderName?: string | undefined
  readonly signingAlgo?: string | undefined
  readonly hashingAlgo?: string | undefined
}

/** What a workflow's handler is given: the shape of the real SDK's runtime. */
export interface WorkflowRuntime<Config, Report> extends BaseRuntime<Config> {
  /** The value of a secret. It comes to this thread: only what `vaultDonSecrets` lists stays in the enclave. */
  getSecret(request: SecretRequest): Result<WorkflowSecret>
  /** The values of several secrets, by their id. */
  getSecrets(requests: readonly SecretRequest[]): Result<Record<string, WorkflowSecret>>
  /** Runs a function as the one node of a network would. The runtime itself can't be used in it. */
  runInNodeMode<Arguments extends unknown[], Input, Output = Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    consensusAggregation: ConsensusAggregation<Input>,
    unwrapOptions?: unknown,
  ): (...args: Arguments) => Result<Output>
  /** What the option `report` makes of the request. */
  report(input: ReportRequest): Result<Report>
}

/** Options of what a workflow sees of its runtime. */
export interface WorkflowOptions<Config, Report> {
  /** The workflow's configuration. */
  readonly config?: Config
  /** The time, in milliseconds of Unix time. @default Date.now */
  readonly now?: () => number
  /** What answers calls to other capabilities, by their id: what it returns is the response, what it throws the error. */
  readonly capabilities?: { readonly [id: string]: (call: CapabilityCall) => unknown }
  /**
   * Makes a report, such as `new Report({ … })` of the real SDK. No network is here that could sign one: without this,
   * `report().result()` throws.
   */
  readonly report?: (
    request: Required<ReportRequest> & { readonly encodedPayload: Uint8Array },
  ) => Report
}

/** Their names. */
export const WORKFLOW_OPTIONS = ['config', 'now', 'capabilities', 'report'] as const

/** What a workflow's runtime is made of. */
export interface WorkflowParts {
  send(call: CapabilityCall): RuntimeReply
  readSecrets(names: readonly SecretKey[]): () => readonly ReleasedSecret[]
  readonly log: Log
}

/** A runtime as workflows know it, before one that carries confidential requests. */
export function createWorkflowRuntime<Config, Report>(
  { send, readSecrets, log }: WorkflowParts,
  options: WorkflowOptions<Config, Report>,
): WorkflowRuntime<Config, Report> {
  const { now = Date.now, capabilities = {}, report: makeReport } = options
  checkOptions('capabilities', capabilities)
  for (const [field, value] of Object.entries({ now, report: makeReport, ...capabilities }))
    if (value !== undefined && typeof value !== 'function')
      throw new ValidationError(`${field} must be a function`)
  let isInNodeMode = false

  function callCapability<Output>(call: CapabilityCall): RuntimeReply<Output> {
    if (typeof call !== 'object' || call === null)
      throw new ValidationError('callCapability takes an object')
    const { capabilityId, method } = call
    const other = Object.hasOwn(capabilities, capabilityId) ? capabilities[capabilityId] : undefined
    if (other !== undefined) return replyOf(once(() => other(call) as Output))
    if (capabilityId === CAPABILITY_ID && method === METHOD)
      return send(call) as RuntimeReply<unknown> as RuntimeReply<Output>
    return replyOf(throwing(notFound(capabilityId, method)))
  }

  const base = {
    config: options.config as Config,
    now: () => new Date(now()),
    log: (message: string) => log.info?.(String(message)),
  }

  /** What is asked of the runtime where only that of the node may be used is an error, once its result is read. */
  const inDonMode = <Value>(ask: () => Result<Value>): Result<Value> =>
    isInNodeMode
      ? { result: throwing(modeError('cannot use Runtime inside RunInNodeMode')) }
      : ask()

  function getSecrets(
    requests: readonly SecretRequest[],
    describe: (why: string) => string,
  ): Result<Record<string, WorkflowSecret>> {
    const names = requests.map(({ id, namespace }) => ({
      key: id ?? '',
      // As the vault does, and the real SDK.
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
        let values: readonly ReleasedSecret[]
        try {
          values = read()
        } catch (thrown) {
          if (!(thrown instanceof VaultError || thrown instanceof ValidationError)) throw thrown
          throw new VaultError(describe(thrown.message), { code: thrown.code, cause: thrown })
        }
        return Object.fromEntries(
          names.map(({ key, namespace }, index) => [
            key,
            {
              $typeName: 'sdk.v1alpha.Secret',
              id: key,
              namespace,
              ...(values[index] as ReleasedSecret),
            } as const,
          ]),
        )
      }),
    }
  }

  function runOnNode<Arguments extends unknown[], Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    args: Arguments,
  ): Input {
    let isOver = false
    const nodeRuntime: NodeRuntime<Config> = {
      ...base,
      _isNodeRuntime: true,
      callCapability: call =>
        isOver
          ? replyOf(throwing(modeError('cannot use NodeRuntime outside RunInNodeMode')))
          : callCapability(call),
    }
    isInNodeMode = true
    try {
      return fn(nodeRuntime, ...args)
    } finally {
      isInNodeMode = false
      isOver = true
    }
  }

  return {
    ...base,
    callCapability: call =>
      isInNodeMode
        ? replyOf(throwing(modeError('cannot use Runtime inside RunInNodeMode')))
        : callCapability(call),
    getSecrets: requests =>
      inDonMode(() =>
        getSecrets(
          requests,
          why =>
            `batch secret retrieval failed for ${requests.length} request(s):\n${why}\nVerify the host response is complete and that the workflow has access to the requested secrets`,
        ),
      ),
    getSecret: request =>
      inDonMode(() => {
        const { id = '', namespace } = request
        const one = getSecrets(
          [request],
          why =>
            `secret retrieval failed for ${id || 'unknown'} (namespace: ${namespace || 'main'}): ${why}. Verify the secret name is correct and that the secret has been configured for this workflow`,
        )
        return { result: () => one.result()[id] as WorkflowSecret }
      }),
    runInNodeMode:
      <Arguments extends unknown[], Input, Output = Input>(
        fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
        consensusAggregation: ConsensusAggregation<Input>,
        unwrapOptions?: unknown,
      ) =>
      (...args: Arguments): Result<Output> =>
        inDonMode(() => {
          const read = observeOnce(() => runOnNode(fn, args), consensusAggregation)
          return { result: once(() => unwrapValue(read(), unwrapOptions) as Output) }
        }),
    report: input =>
      inDonMode(() => {
        if (makeReport === undefined)
          return { result: throwing(notFound('consensus@1.0.0-alpha', 'Report')) }
        const { encodedPayload = '', encoderName = '', signingAlgo = '', hashingAlgo = '' } = input
        const bytes = readBytes({ path: 'encodedPayload', value: encodedPayload })
        return {
          result: once(() =>
            makeReport({ encodedPayload: bytes, encoderName, signingAlgo, hashingAlgo }),
          ),
        }
      }),
  }
}

function notFound(capabilityId: unknown, method: unknown): EnclaveError {
  return new EnclaveError(
    `Capability '${String(capabilityId)}' not found: the host rejected the call to method '${String(method)}'. Verify the capability ID is correct and the capability is available in this CRE environment`,
    { code: 'CAPABILITY', mayHaveBeenSent: false },
  )
}

function modeError(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'CAPABILITY', mayHaveBeenSent: false })
}

function throwing(error: Error): () => never {
  return function throwIt() {
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
