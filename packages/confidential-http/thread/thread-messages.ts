import type { MessagePort } from 'node:worker_threads'
import type { Log } from 'sluice/core'
import type { ConfidentialCall, SecretName } from 'sluice/plugins/confidential-http'
import type { Failure } from '../outcome.js'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'

/** The data that a thread is started with. */
export interface ThreadData<Settings> {
  readonly settings: Settings
  readonly port: MessagePort
  /**
   * One Int32, which the enclave's thread increments with every message. A calling thread that
   * blocks waits for a change of this number.
   */
  readonly counter: SharedArrayBuffer
  /** Whether the thread tells how long it works for each caller. */
  readonly isMetered: boolean
  /** The log levels that have a listener. */
  readonly levels: readonly (keyof Log)[]
}

/** The name of a secret. Its owner is the caller. */
export type SecretKey = Omit<SecretName, 'owner'>

/** The value of a secret, for a workflow. */
export interface ReleasedSecret {
  readonly owner: string
  readonly value: string
}

/**
 * The fields of a confidential call that can be sent to another thread. That thread adds the other
 * fields.
 */
export type CallFields = Omit<
  ConfidentialCall,
  'headers' | 'signal' | 'released' | 'policies' | 'connection' | 'onConnected' | 'scope'
>

/** A question to the enclave's thread. */
export type Question =
  /** A checked request. The answer is an HTTPResponse. */
  | { readonly type: 'request'; readonly request: ConfidentialHTTPRequestMessage }
  /**
   * A call that has already passed layers outside the thread. The answer is a ConfidentialReply.
   */
  | { readonly type: 'call'; readonly call: CallFields }
  /**
   * The names of secrets. The answer has a ReleasedSecret for each name. It must come within
   * `timeout` milliseconds.
   */
  | { readonly type: 'secrets'; readonly names: readonly SecretKey[]; readonly timeout: number }

/** A message to the enclave's thread. */
export type ToThread =
  | (Question & {
      readonly id: number
      /** When the question was sent, in milliseconds of Unix time. */
      readonly startedAt: number
    })
  | { readonly type: 'cancel'; readonly id: number }
  /** Asks for a sign of life, which is the message `alive`. */
  | { readonly type: 'live' }

/** A message from the enclave's thread. */
export type FromThread =
  /** The thread is ready. With a `failure`, the thread could not start. */
  | { readonly type: 'opened'; readonly failure?: Failure }
  /** The enclave has connected to the API. From then on, the API may have received the request. */
  | { readonly type: 'connected'; readonly id: number }
  | { readonly type: 'alive' }
  /** The thread has worked so many milliseconds more for a caller. */
  | { readonly type: 'work'; readonly caller: string; readonly ms: number }
  | { readonly type: 'response'; readonly id: number; readonly response: unknown }
  | { readonly type: 'failure'; readonly id: number; readonly failure: Failure }
  | {
      readonly type: 'log'
      readonly level: keyof Log
      readonly message: string
      readonly facts: Readonly<Record<string, unknown>> | undefined
    }
  /**
   * The last message of a thread. A thread that is killed or runs out of memory does not send this
   * message.
   */
  | { readonly type: 'end'; readonly why: string }
