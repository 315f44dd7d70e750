import { asyncDispose } from '../../core/dispose.js'
import { DataStreamsError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { createLog } from '../../core/log.js'
import { checkNumber, checkSignal } from '../../core/options.js'
import { type LoggingConfig, logging } from '../../plugins/logging.js'
import type { CapabilityCall } from '../capability.js'
import { durationMs, parseDuration } from '../request/duration.js'
import { normalizeRequest } from '../request/normalize-request.js'
import { startThread, type Thread } from '../thread/start-thread.js'
import type { ReleasedSecret, SecretKey } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import {
  createWorkflowRuntime,
  type RuntimeReply,
  type WorkflowOptions,
  type WorkflowRuntime,
} from './workflow.js'

/**
 * Hosts confidential HTTP: give it to `sendRequest`, or to a whole workflow's handler. It runs requests in a thread of its own,
 * which it ends with `close`.
 */
export interface Runtime<Config = unknown, Report = never>
  extends WorkflowRuntime<Config, Report>,
    AsyncDisposable {
  /** Ends the thread and every request. Idempotent. */
  close(): Promise<void>
}

/** Options every runtime has. */
export interface RuntimeOptions<Config = unknown, Report = never>
  extends WorkflowOptions<Config, Report> {
  /** Where log lines go, and how many. None holds a secret. @default silent */
  readonly logging?: LoggingConfig
  /** Megabytes the heap of the runtime's thread may grow to. @default 128 */
  readonly memoryMb?: number
}

/** What a runtime runs. */
export interface RuntimeParts<Settings, Config, Report> {
  readonly file: string
  readonly settings: Settings
  readonly options: RuntimeOptions<Config, Report>
  /** Environment variables of its thread. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** The timeout of a request that names none, in milliseconds. */
  readonly defaultTimeout: number
}

/** How much longer than its timeout a request is waited for, in milliseconds, before its thread is taken for dead. */
const GRACE = 700

/** Starts the thread, so that it is ready when the first request comes, and another whenever one has died. */
export function createRuntime<Settings, Config, Report>(
  parts: RuntimeParts<Settings, Config, Report>,
): Runtime<Config, Report> {
  const { file, settings, options, defaultTimeout, env } = parts
  const memoryMb = checkNumber('memoryMb', options.memoryMb ?? 128, { min: 16, max: 65_536 })
  const { log, listen } = createLog()
  const { signal, defer, end } = createLifetime()
  logging(options.logging).setup?.({ kind: 'client', stack: [], log, listen, signal, defer })
  const start = (): Thread => startThread({ file, settings, memoryMb, env, log })
  let thread = start()

  function send(call: CapabilityCall): RuntimeReply {
    if (signal.aborted) throw signal.reason
    const { payload } = call
    const callSignal = checkSignal('signal', call.signal)
    callSignal?.throwIfAborted()
    const message = normalizeRequest(payload)
    const { timeout = parseDuration('defaultTimeout', `${defaultTimeout}ms`) } = message.request
    const request = { ...message, request: { ...message.request, timeout } }
    if (!thread.isUsable()) thread = start()
    const sent = thread.send<HTTPResponse>(
      { type: 'request', request },
      durationMs(timeout) + GRACE,
      callSignal,
    )
    let settled: Promise<HTTPResponse> | undefined
    return {
      result: sent.wait,
      resultAsync() {
        settled ??= sent.settled()
        return settled
      },
    }
  }

  function readSecrets(names: readonly SecretKey[]): () => readonly ReleasedSecret[] {
    if (signal.aborted) throw signal.reason
    if (!thread.isUsable()) thread = start()
    return thread.send<readonly ReleasedSecret[]>(
      { type: 'secrets', names },
      defaultTimeout + GRACE,
    ).wait
  }

  function close(): Promise<void> {
    if (!signal.aborted) end(closed())
    return thread.end(closed())
  }

  const workflow = createWorkflowRuntime({ send, readSecrets, log }, options)
  return { ...workflow, close, [asyncDispose]: close }
}

function closed(): DataStreamsError {
  return new DataStreamsError('the runtime was closed', { code: 'CLOSED', mayHaveBeenSent: false })
}
