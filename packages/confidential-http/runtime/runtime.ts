import {
  checkNumber,
  checkSignal,
  createLifetime,
  createLog,
  DataStreamsError,
  MAX_TIMER,
  type OptionNames,
  setUp,
} from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import { type LoggingConfig, logging } from 'sluice/plugins/logging'
import type { CapabilityCall } from '../capability.js'
import { durationMs, parseDuration } from '../request/duration.js'
import { normalizeRequest } from '../request/normalize-request.js'
import { type RenewAfter, RenewedThread } from '../thread/renewed-thread.js'
import { startThread } from '../thread/start-thread.js'
import type { ReleasedSecret } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import { createWorkflowRuntime } from './workflow.js'
import type { ReadSecrets } from './workflow-secrets.js'
import {
  type RuntimeReply,
  type WorkflowOptions,
  type WorkflowRuntime,
  workflowNames,
} from './workflow-types.js'

/** Carries out confidential requests in its own thread. Pass it to `sendRequest`, or to a whole workflow's handler. */
export interface Runtime<Config = unknown, Report = never>
  extends WorkflowRuntime<Config, Report>,
    AsyncDisposable {
  /** Ends the thread and every request. Idempotent. */
  close(): Promise<void>
}

/** The options of every runtime. */
export interface RuntimeOptions<Config = unknown, Report = never>
  extends WorkflowOptions<Config, Report> {
  /** Where log lines go, and from which level on. No line holds a secret. @default no log */
  readonly logging?: LoggingConfig
  /** The limit of the heap of the runtime's thread, in megabytes. @default 128 */
  readonly memoryMb?: number
}

/** The names of these options. */
export const runtimeNames: OptionNames<RuntimeOptions> = {
  ...workflowNames,
  logging: true,
  memoryMb: true,
}

/** The program of a runtime's thread, and its settings. */
export interface RuntimeProgram<Settings, Config, Report> {
  readonly file: URL
  readonly settings: Settings
  readonly options: RuntimeOptions<Config, Report>
  /** Environment variables of the thread. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** The timeout of a request that names none, in milliseconds. */
  readonly defaultTimeout: number
  /** When the thread is replaced. @default when it has died */
  readonly renewAfter?: Required<RenewAfter>
}

/** Milliseconds to wait for a request beyond its timeout, before its thread counts as dead. */
const GRACE = 700

/** A thread that never has a secret need not be replaced. */
const NEVER: Required<RenewAfter> = { requests: Number.POSITIVE_INFINITY, quietMs: MAX_TIMER }

/** Starts the thread at once, so that it is ready for the first request, and another one whenever it has died. */
export function createRuntime<Settings, Config, Report>({
  file,
  settings,
  options,
  defaultTimeout,
  env,
  renewAfter = NEVER,
}: RuntimeProgram<Settings, Config, Report>): Runtime<Config, Report> {
  const memoryMb = checkNumber('memoryMb', options.memoryMb ?? 128, { min: 16, max: 65_536 })
  const { log, listen } = createLog()
  const life = createLifetime()
  const { signal, end } = life
  setUp([logging(options.logging)], { stack: [], log, listen, life })
  const thread = new RenewedThread(
    () => startThread({ file, settings, memoryMb, env, log }),
    renewAfter,
  )

  function send(call: CapabilityCall): RuntimeReply {
    if (signal.aborted) throw signal.reason
    const callSignal = checkSignal('signal', call.signal)
    callSignal?.throwIfAborted()
    const message = normalizeRequest(call.payload)
    const { timeout = parseDuration('defaultTimeout', `${defaultTimeout}ms`) } = message.request
    const request = { ...message, request: { ...message.request, timeout } }
    const limit = durationMs(timeout) + GRACE
    return thread.send<HTTPResponse>({ type: 'request', request }, limit, { signal: callSignal })
  }

  const readSecrets: ReadSecrets = names => {
    if (signal.aborted) throw signal.reason
    const question = { type: 'secrets', names } as const
    return thread.send<readonly ReleasedSecret[]>(question, defaultTimeout + GRACE).result
  }

  function close(): Promise<void> {
    if (!signal.aborted) end(closed())
    return thread.end(closed())
  }

  const workflow = createWorkflowRuntime({ send, readSecrets, log }, options)
  return { ...workflow, close, [asyncDispose]: close }
}

function closed(): DataStreamsError {
  const error = new DataStreamsError('the runtime was closed', { code: 'CLOSED' })
  return Object.assign(error, { mayHaveBeenSent: false })
}
