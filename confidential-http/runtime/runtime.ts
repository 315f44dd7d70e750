import { asyncDispose } from '../../core/dispose.js'
import { DataStreamsError, EnclaveError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { createLog } from '../../core/log.js'
import { checkNumber, checkSignal } from '../../core/options.js'
import { type LoggingConfig, logging } from '../../plugins/logging.js'
import {
  CAPABILITY_ID,
  type CapabilityCall,
  type CapabilityRuntime,
  METHOD,
} from '../capability.js'
import { durationMs, parseDuration } from '../request/duration.js'
import { normalizeRequest } from '../request/normalize-request.js'
import { startThread, type Thread } from '../thread/start-thread.js'
import type { HTTPResponse } from '../types.js'

/** What a call to a capability comes to. Both ways may be taken, any number of times. */
export interface RuntimeReply {
  /** Blocks the thread until the answer is there. */
  result(): HTTPResponse
  /** The same without blocking. */
  resultAsync(): Promise<HTTPResponse>
}

/** Hosts confidential HTTP: give it to `sendRequest`. It runs requests in a thread of its own, which it ends with `close`. */
export interface Runtime extends CapabilityRuntime, AsyncDisposable {
  callCapability(call: CapabilityCall): RuntimeReply
  /** Ends the thread and every request. Idempotent. */
  close(): Promise<void>
}

/** Options every runtime has. */
export interface RuntimeOptions {
  /** Where log lines go, and how many. None holds a secret. @default silent */
  readonly logging?: LoggingConfig
  /** Megabytes the heap of the runtime's thread may grow to. @default 128 */
  readonly memoryMb?: number
}

/** What a runtime runs. */
export interface RuntimeParts<Settings> {
  readonly file: string
  readonly settings: Settings
  readonly options: RuntimeOptions
  /** Environment variables of its thread. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** The timeout of a request that names none, in milliseconds. */
  readonly defaultTimeout: number
}

/** How much longer than its timeout a request is waited for, in milliseconds, before its thread is taken for dead. */
const GRACE = 700

/** Starts the thread, so that it is ready when the first request comes, and another whenever one has died. */
export function createRuntime<Settings>(parts: RuntimeParts<Settings>): Runtime {
  const { file, settings, options, defaultTimeout, env } = parts
  const memoryMb = checkNumber('memoryMb', options.memoryMb ?? 128, { min: 16, max: 65_536 })
  const { log, listen } = createLog()
  const { signal, defer, end } = createLifetime()
  logging(options.logging).setup?.({ kind: 'client', stack: [], log, listen, signal, defer })
  const start = (): Thread => startThread({ file, settings, memoryMb, env, log })
  let thread = start()

  function callCapability(call: CapabilityCall): RuntimeReply {
    if (signal.aborted) throw signal.reason
    const { payload, signal: callSignal } = checkCall(call)
    callSignal?.throwIfAborted()
    const message = normalizeRequest(payload)
    const { timeout = parseDuration('defaultTimeout', `${defaultTimeout}ms`) } = message.request
    const request = { ...message, request: { ...message.request, timeout } }
    if (!thread.isUsable()) thread = start()
    const sent = thread.send(request, durationMs(timeout) + GRACE, callSignal)
    let settled: Promise<HTTPResponse> | undefined
    return {
      result: sent.wait,
      resultAsync() {
        settled ??= sent.settled()
        return settled
      },
    }
  }

  function close(): Promise<void> {
    if (!signal.aborted) end(new DataStreamsError('the runtime was closed', { code: 'CLOSED' }))
    return thread.end(signal.reason as Error)
  }

  return { callCapability, close, [asyncDispose]: close }
}

function checkCall(call: CapabilityCall): CapabilityCall {
  if (typeof call !== 'object' || call === null)
    throw new ValidationError('callCapability takes an object')
  const { capabilityId, method } = call
  if (capabilityId !== CAPABILITY_ID || method !== METHOD) {
    throw new EnclaveError(
      `capability ${String(capabilityId)}, method ${String(method)}: this runtime has ${CAPABILITY_ID}, method ${METHOD}`,
      { code: 'CAPABILITY' },
    )
  }
  checkSignal('signal', call.signal)
  return call
}
