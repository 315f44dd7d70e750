import type { Hooks } from '../../core/hooks.js'
import type { ScopeFacts } from '../../core/scope.js'
import type { SecretName } from '../../local/vault/secret-name.js'

/** One part of an enclave's stack. */
export type EnclavePlugin = Hooks<ConfidentialCall, ConfidentialReply>

/** A request that an enclave makes for somebody who must not see the secrets in it. */
export interface ConfidentialCall {
  /** What the call is for, as the capability's method is named: `SendRequest`. */
  readonly operation: string
  /** Upper case. */
  readonly method: string
  /** Absolute, exactly as it is sent: what a signature covers. */
  readonly url: string
  /** Each attempt gets a copy of its own, so an `attempt` layer may set what it likes. */
  readonly headers: Headers
  /** Exactly the bytes that are sent. */
  readonly body?: string | Uint8Array
  /** Aborted when the caller has lost interest. */
  readonly signal: AbortSignal
  readonly kind: 'confidential'
  /**
   * Every line of each header, as the caller named and ordered them. What a layer sets in `headers` is sent besides, in
   * place of lines of that name.
   */
  readonly multiHeaders: HeaderLines
  /** Whose secrets may be used: an address, as 40 hexadecimal digits. */
  readonly owner: string
  /** The secrets asked for. */
  readonly secrets: readonly SecretName[]
  /** The secrets that have been released, by key. */
  readonly released: ReadonlyMap<string, string>
  /** What is no secret and fills placeholders all the same. */
  readonly publicValues: ReadonlyMap<string, string>
  /** Certificates in PEM that take the place of the platform's root certificates. */
  readonly customRootCaCertPem?: string
  /** Milliseconds from `startedAt` to the last byte of the answer. */
  readonly timeout?: number
  /** When the caller made the request, in milliseconds of Unix time. */
  readonly startedAt: number
  /** Whether the answer's body is yet to be encrypted: the layer that does so hands false on, and the wire refuses true. */
  readonly encryptOutput: boolean
  /** How the wire is to connect. */
  readonly connection: ConnectionRules
  /** The wire calls it when it has a connection: from then on the request may have been sent. Layers pass it on. */
  readonly onConnected?: () => void
  readonly scope: ConfidentialScope
}

/** How the enclave's wire connects. Nothing here can turn the verification of certificates off. */
export interface ConnectionRules {
  /** Root certificates in PEM. @default those of the platform */
  readonly ca?: readonly string[]
  /** Decides about each address before it is dialled. @default all are dialled */
  readonly mayDial?: (address: string) => boolean
  /** Bytes that the templates of a request may come to, filled. @default 1024000 */
  readonly maxRequestBytes?: number
  /** Bytes an answer may have, unpacked. @default 1024000 */
  readonly maxResponseBytes?: number
}

/** The answer to a confidential request, whatever its status. */
export interface ConfidentialReply {
  readonly kind: 'confidential'
  readonly status: number
  readonly multiHeaders: HeaderLines
  /** The whole body, bounded; encrypted where that was asked for. */
  readonly body: Uint8Array
}

/** The life of one confidential request. */
export interface ConfidentialScope extends ScopeFacts {
  readonly kind: 'confidential'
}

/** Every line of each header, by name. */
export type HeaderLines = ReadonlyMap<string, readonly string[]>
