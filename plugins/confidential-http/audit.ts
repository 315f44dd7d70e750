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
 * What an audit says of a request. It holds no value, no path, no query and no text of the caller's
 * or the API's.
 */
export type AuditEvent =
  /** Written before a secret is released. */
  | {
      readonly type: 'request'
      /** The public key of a remote caller, or what else the enclave calls it. */
      readonly caller?: string
      /** The address whose secrets it may use. */
      readonly owner: string
      /** `namespace/key` of each secret that the request names. */
      readonly secrets: readonly string[]
      /** The HTTP method. */
      readonly method: string
      /** The host of its URL, and the port if it is not the usual one. */
      readonly host: string
      /** The size of URL, header lines and body before placeholders are filled. */
      readonly bytes: number
      /** Whether the answer's body is encrypted. */
      readonly encryptOutput: boolean
    }
  /** Written before the answer is given, or the error. */
  | {
      readonly type: 'answer'
      /** The number of the record of its request. */
      readonly request: number
      /** The HTTP status; absent after an error. */
      readonly status?: number
      /** The code of the error; `ABORTED` where the caller cancelled, or went away. */
      readonly code?: string
      /** Whether the enclave had connected to the API, which may have got the request. */
      readonly sent: boolean
      /** The size of the answer's body. */
      readonly bytes: number
      /** The milliseconds that it took. */
      readonly ms: number
    }

/** Where records are written, in order. */
export interface AuditLog {
  /**
   * Resolves with the number of the record when it is as durable as it will be; rejects if it can't
   * be written.
   */
  append(event: AuditEvent): Promise<number>
}

/** Options of `audit`. */
export interface AuditOptions {
  /** Where records go: `openAuditLog` has them in a file. */
  readonly log: AuditLog
}

/** Longer names are none of DNS. */
const MAX_HOST = 300

/**
 * Writes a record before a request begins, and one of what came of it. A request that can't be
 * recorded is not made, and an answer that can't be is not given. Belongs at the top of a stack.
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
          // The request's own error says more than one about its record.
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
