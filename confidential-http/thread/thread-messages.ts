import type { Log } from '../../core/log.js'
import type { SecretName } from '../../local/vault/secret-name.js'
import type { ConfidentialHTTPRequestMessage } from '../request/normalize-request.js'
import type { Failure } from './failure.js'

/** A secret of the one on whose behalf the thread works. */
export type SecretKey = Omit<SecretName, 'owner'>

/** A secret's value, for a workflow that asked for it. */
export interface ReleasedSecret {
  readonly owner: string
  readonly value: string
}

/** What is asked of the enclave's thread. */
export type Question =
  /** Comes to an HTTPResponse. */
  | { readonly type: 'request'; readonly request: ConfidentialHTTPRequestMessage }
  /** Comes to a ReleasedSecret for each name. */
  | { readonly type: 'secrets'; readonly names: readonly SecretKey[] }

/** What the calling thread tells the enclave's. */
export type ToThread =
  | (Question & {
      readonly id: number
      /** In milliseconds of Unix time. */
      readonly startedAt: number
    })
  | { readonly type: 'cancel'; readonly id: number }

/** What the enclave's thread tells the calling one. */
export type FromThread =
  /** It is ready; or never will be, where there is a failure. */
  | { readonly type: 'opened'; readonly failure: Failure | undefined }
  | { readonly type: 'response'; readonly id: number; readonly response: unknown }
  | { readonly type: 'failure'; readonly id: number; readonly failure: Failure }
  | {
      readonly type: 'log'
      readonly level: keyof Log
      readonly message: string
      readonly facts: Readonly<Record<string, unknown>> | undefined
    }
  /** Its last word. One that is killed, or runs out of memory, has none. */
  | { readonly type: 'end'; readonly why: string }
