import type { Log } from 'sluice/core'
import { ValidationError } from 'sluice/core'
import { checkObject } from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { CAPABILITY_ID, type CapabilityCall, METHOD, type Result } from '../capability.js'
import { once } from '../once.js'
import { readBytes } from '../request/byte-fields.js'
import { type ConsensusAggregation, observeOnce, unwrapValue } from './node-mode.js'
import { type ReadSecrets, requestSecret, requestSecrets, throwing } from './workflow-secrets.js'
import type {
  NodeRuntime,
  ReportRequest,
  RuntimeReply,
  WorkflowOptions,
  WorkflowRuntime,
} from './workflow-types.js'

/** The services that a workflow's runtime uses. */
export interface WorkflowServices {
  send(call: CapabilityCall): RuntimeReply
  readonly readSecrets: ReadSecrets
  readonly log: Log
}

/** Makes a workflow's runtime on top of one that carries out confidential requests. */
export function createWorkflowRuntime<Config, Report>(
  { send, readSecrets, log }: WorkflowServices,
  options: WorkflowOptions<Config, Report>,
): WorkflowRuntime<Config, Report> {
  const { now = Date.now, capabilities = {}, report: makeReport } = options
  checkObject('capabilities', capabilities)
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

  /** In node mode the runtime returns an error as the result; elsewhere it asks. */
  const outsideNodeMode = <Value>(ask: () => Result<Value>): Result<Value> =>
    isInNodeMode
      ? { result: throwing(capabilityError('cannot use Runtime inside RunInNodeMode')) }
      : ask()

  function runOnNode<Arguments extends unknown[], Input>(
    fn: (nodeRuntime: NodeRuntime<Config>, ...args: Arguments) => Input,
    args: Arguments,
  ): Input {
    let hasEnded = false
    const nodeRuntime: NodeRuntime<Config> = {
      ...base,
      _isNodeRuntime: true,
      callCapability: call =>
        hasEnded
          ? replyOf(throwing(capabilityError('cannot use NodeRuntime outside RunInNodeMode')))
          : callCapability(call),
    }
    isInNodeMode = true
    try {
      return fn(nodeRuntime, ...args)
    } finally {
      isInNodeMode = false
      hasEnded = true
    }
  }

  function requestReport(input: ReportRequest): Result<Report> {
    if (makeReport === undefined)
      return { result: throwing(notFound('consensus@1.0.0-alpha', 'Report')) }
    const { encodedPayload = '', encoderName = '', signingAlgo = '', hashingAlgo = '' } = input
    const bytes = readBytes({ path: 'encodedPayload', value: encodedPayload })
    const request = { encodedPayload: bytes, encoderName, signingAlgo, hashingAlgo }
    return { result: once(() => makeReport(request)) }
  }

  return {
    ...base,
    callCapability: call =>
      isInNodeMode
        ? replyOf(throwing(capabilityError('cannot use Runtime inside RunInNodeMode')))
        : callCapability(call),
    getSecrets: requests => outsideNodeMode(() => requestSecrets(readSecrets, requests)),
    getSecret: request => outsideNodeMode(() => requestSecret(readSecrets, request)),
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
    report: input => outsideNodeMode(() => requestReport(input)),
  }
}

function notFound(capabilityId: unknown, method: unknown): EnclaveError {
  return capabilityError(
    `Capability '${String(capabilityId)}' not found: the host rejected the call to method '${String(method)}'. Verify the capability ID is correct and the capability is available in this CRE environment`,
  )
}

function capabilityError(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'CAPABILITY', mayHaveBeenSent: false })
}

function replyOf<Output>(result: () => Output): RuntimeReply<Output> {
  return {
    result,
    async resultAsync() {
      return result()
    },
  }
}
