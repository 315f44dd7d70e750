import { isStreamsError } from '../../core/errors.js'
import { checkFunction, readOptions, unchecked } from '../../core/options.js'
import {
  type ConfidentialCall,
  type ConfidentialReply,
  type EnclavePlugin,
  requestSize,
} from './call.js'
import { EnclaveError } from './errors.js'

/**
 * An audit record of a request. It contains no value of a secret or header, no path, no query and
 * no body.
 */
export type AuditEvent =
  /** The record that is written before a secret is released. */
  | {
      readonly type: 'request'
      /** The name of the caller. For a remote caller, this is its public key. */
      readonly caller?: string
      /** The address of the owner whose secrets the caller may use. */
      readonly owner: string
      /** `namespace/key` of each secret that the request names. */
      readonly secrets: readonly string[]
      /** The HTTP method. */
      readonly method: string
      /** The host of the URL, with the port unless it is the default port. */
      readonly host: string
      /** The size in bytes of the URL, header lines and body, before placeholders are filled. */
      readonly bytes: number
      /** Whether the answer's body is encrypted. */
      readonly encryptOutput: boolean
    }
  /** The record that is written before the answer or the error is returned. */
  | {
      readonly type: 'answer'
      /** The number of the request's own record. */
      readonly request: number
      /** The HTTP status. Absent after an error. */
      readonly status?: number
      /** The code of the error. `ABORTED` if the caller cancelled or disconnected. */
      readonly code?: string
      /**
       * Whether the enclave had connected to the API. If so, the API may have received the request.
       */
      readonly sent: boolean
      /** The size of the answer's body, in bytes. */
      readonly bytes: number
      /** How many milliseconds the request took. */
      readonly ms: number
    }

/** A log to which records are written in order. */
export interface AuditLog {
  /**
   * Writes a record. Resolves with the number of the record once it is stored as durably as the log
   * can store it. Rejects if the record can't be written.
   */
  append(event: AuditEvent): Promise<number>
}

/** Options of `audit`. */
export interface AuditOptions {
  /** The log that records are written to. `openAuditLog` opens a log in a file. */
  readonly log: AuditLog
}

/** The highest number of characters of a recorded host. Every name in DNS is shorter. */
const MAX_HOST = 300

/**
 * Writes a record before a request begins, and a record of its outcome. If the first record can't
 * be written, the request is not made. If the second record can't be written, the answer is not
 * returned. This plugin belongs at the top of a stack.
 */
export function audit(options: AuditOptions): EnclavePlugin {
  const { log } = readOptions('audit', options, { log: unchecked<AuditLog> })
  checkFunction('log.append', log?.append)
  return {
    name: 'audit',
    call: next =>
      async function auditCall(call) {
        const begun = performance.now()
        let sent = false
        const { onConnected } = call
        function connected(): void {
          sent = true
          onConnected?.()
        }
        const request = await write(log, describe(call))
        function answer(fields: { status?: number; code?: string; bytes: number }): AuditEvent {
          const ms = Math.round(performance.now() - begun)
          return { type: 'answer', request, ...fields, sent, ms }
        }
        const observed = onConnected === undefined ? call : { ...call, onConnected: connected }
        let reply: ConfidentialReply
        try {
          reply = await next(observed)
        } catch (thrown) {
          const aborted = call.signal.aborted ? 'ABORTED' : 'UNKNOWN'
          const code = isStreamsError(thrown) ? thrown.code : aborted
          // The error of the request is more useful than an error about its record.
          await write(log, answer({ code, bytes: 0 })).catch(() => undefined)
          throw thrown
        }
        await write(log, answer({ status: reply.status, bytes: reply.body.byteLength }))
        return reply
      },
  }
}

function describe(call: ConfidentialCall): AuditEvent {
  const { caller, owner, secrets, method, url, encryptOutput } = call
  return {
    type: 'request',
    ...(caller === undefined ? {} : { caller }),
    owner,
    secrets: secrets.map(({ namespace, key }) => `${namespace}/${key}`),
    method,
    host: new URL(url).host.slice(0, MAX_HOST),
    bytes: requestSize(call),
    encryptOutput,
  }
}

async function write(log: AuditLog, event: AuditEvent): Promise<number> {
  try {
    return await log.append(event)
  } catch (thrown) {
    if (isStreamsError(thrown, 'AUDIT')) throw thrown
    throw new EnclaveError('the request can not be recorded', { code: 'AUDIT' })
  }
}
