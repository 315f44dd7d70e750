import type { Hooks } from '../../core/stack.js'
import type { ScopeFacts } from '../../core/scope.js'
import type { SecretName, SecretUse } from './secret.js'

/** One part of an enclave's stack. */
export type EnclavePlugin = Hooks<ConfidentialCall, ConfidentialReply>

/** A request that an enclave makes for a caller that must not see the secrets in it. */
export interface ConfidentialCall {
  /** The name of the capability's method: `SendRequest`. */
  readonly operation: string
  /** Upper case. */
  readonly method: string
  /** Absolute, and sent exactly as it is. */
  readonly url: string
  /** Each attempt gets its own copy, so an `attempt` layer may set headers freely. */
  readonly headers: Headers
  /** The bytes that are sent; text is sent as UTF-8. */
  readonly body?: string | Uint8Array
  /** Aborts when the caller cancels. */
  readonly signal: AbortSignal
  /**
   * Every line of each header, named and ordered by the caller. A header in `headers` replaces the
   * lines of its name.
   */
  readonly multiHeaders: HeaderLines
  /** Who makes the request: the public key of a remote caller. */
  readonly caller?: string
  /** The owner of the secrets that may be used: an address, as 40 hexadecimal digits. */
  readonly owner: string
  /** The requested secrets. */
  readonly secrets: readonly SecretName[]
  /** The values of the released secrets, by key. */
  readonly released: ReadonlyMap<string, string>
  /**
   * Where the released secrets may go, by key; those that were stored without a policy are not in
   * it.
   */
  readonly policies: ReadonlyMap<string, SecretUse>
  /** Values that fill placeholders and are not secret. */
  readonly publicValues: ReadonlyMap<string, string>
  /** Certificates in PEM that replace the platform's root certificates. */
  readonly customRootCaCertPem?: string
  /** Milliseconds from `startedAt` to the last byte of the answer. */
  readonly timeout?: number
  /** When the caller made the request, in milliseconds of Unix time. */
  readonly startedAt: number
  /**
   * Whether the answer's body still has to be encrypted: the layer that encrypts passes false on,
   * the wire rejects true.
   */
  readonly encryptOutput: boolean
  /**
   * What the encrypted body is bound to besides its status; absent where it is to be in the
   * reference's layout.
   */
  readonly boundTo?: string
  /** How the wire connects. */
  readonly connection: ConnectionRules
  /**
   * Called by the wire when it is connected: from then on the request may have been sent. Layers
   * pass it on.
   */
  readonly onConnected?: () => void
  /** The life of this one request. */
  readonly scope: ScopeFacts
}

/** How the enclave's wire connects. No rule disables the verification of certificates. */
export interface ConnectionRules {
  /** Root certificates in PEM. @default those of the platform */
  readonly ca?: readonly string[]
  /**
   * Throws where the wire must not send this request: layers below the templates may have changed
   * it. @default it may be sent
   */
  readonly checkTarget?: (target: { readonly method: string; readonly url: string }) => void
  /** Whether the wire may connect to an address. @default it may connect to every address */
  readonly mayConnect?: (address: string) => boolean
  /** The largest size of a request with its placeholders filled, in bytes. @default 1024000 */
  readonly maxRequestBytes?: number
  /** The largest size of a decompressed answer, in bytes. @default 1024000 */
  readonly maxResponseBytes?: number
}

/** The answer to a confidential request, with any status. */
export interface ConfidentialReply {
  /** The HTTP status of the API's answer. */
  readonly status: number
  /** The headers of the API's answer. */
  readonly multiHeaders: HeaderLines
  /** The whole body, bounded in size, and encrypted if the call asked for that. */
  readonly body: Uint8Array
}

/** Every line of each header, by name. */
export type HeaderLines = ReadonlyMap<string, readonly string[]>

/**
 * The length of a text in UTF-8, in bytes. It makes no copy of the text, which may hold a secret.
 */
export function utf8Length(text: string): number {
  return Buffer.byteLength(text)
}

/** The colon, the space and the line break of a header line, in bytes. */
const LINE_BYTES = 4

/** The size of a request on the wire, in bytes: its URL, every header line and its body. */
export function requestSize({
  url,
  multiHeaders,
  body = '',
}: Pick<ConfidentialCall, 'url' | 'multiHeaders' | 'body'>): number {
  let size = utf8Length(url) + (typeof body === 'string' ? utf8Length(body) : body.byteLength)
  for (const [name, values] of multiHeaders)
    for (const value of values) size += utf8Length(name) + utf8Length(value) + LINE_BYTES
  return size
}

/**
 * The UTF-8 bytes of a text in memory of their own, which can be wiped. (`Buffer.from` keeps short
 * texts in a pool, where they stay readable.)
 */
export function ownBytes(text: string, encoding: 'utf8' | 'latin1' = 'utf8'): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding))
  bytes.write(text, encoding)
  return bytes
}

/** Uses the bytes of a text, and wipes them. */
export function withBytes<Value>(text: string, use: (bytes: Buffer) => Value): Value {
  const bytes = ownBytes(text)
  try {
    return use(bytes)
  } finally {
    bytes.fill(0)
  }
}
