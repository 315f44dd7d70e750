import type { ScopeFacts } from '../../core/scope.js'
import type { Hooks } from '../../core/stack.js'
import type { SecretName, SecretUse } from './secret.js'

/** A plugin in an enclave's stack. */
export type EnclavePlugin = Hooks<ConfidentialCall, ConfidentialReply>

/**
 * A request that an enclave makes for a caller. The caller must not see the secrets in the request.
 */
export interface ConfidentialCall {
  /** The name of the capability's method: `SendRequest`. */
  readonly operation: string
  /** The HTTP method, in upper case. */
  readonly method: string
  /** The absolute URL. It is sent unchanged. */
  readonly url: string
  /**
   * The headers that layers set. Each attempt gets its own copy, so an `attempt` layer may change
   * them freely.
   */
  readonly headers: Headers
  /** The body. Text is sent as UTF-8. */
  readonly body?: string | Uint8Array
  /** A signal that aborts when the caller cancels. */
  readonly signal: AbortSignal
  /**
   * Every line of each header, with the names and the order that the caller chose. A header in
   * `headers` replaces all lines of the same name.
   */
  readonly multiHeaders: HeaderLines
  /** The name of the caller. For a remote caller, this is its public key. */
  readonly caller?: string
  /** The owner of the secrets that may be used: an address, as 40 hexadecimal digits. */
  readonly owner: string
  /** The names of the requested secrets. */
  readonly secrets: readonly SecretName[]
  /** The values of the released secrets, by key. */
  readonly released: ReadonlyMap<string, string>
  /**
   * The policies of the released secrets, by key. A secret that was stored without a policy has no
   * entry.
   */
  readonly policies: ReadonlyMap<string, SecretUse>
  /** The public values that fill placeholders. */
  readonly publicValues: ReadonlyMap<string, string>
  /** Root certificates in PEM that replace the platform's root certificates for this request. */
  readonly customRootCaCertPem?: string
  /** How many milliseconds may pass from `startedAt` to the last byte of the answer. */
  readonly timeout?: number
  /** When the caller made the request, in milliseconds of Unix time. */
  readonly startedAt: number
  /**
   * Whether the answer's body must still be encrypted. The layer that encrypts passes on `false`.
   * The wire rejects a call with `true`.
   */
  readonly encryptOutput: boolean
  /**
   * The id of the request that the encrypted body is bound to, in addition to its status. Absent if
   * the body must have the layout of the reference.
   */
  readonly boundTo?: string
  /** How the wire connects. */
  readonly connection: ConnectionRules
  /**
   * The wire calls this function once it is connected. From then on, the request may have been
   * sent. Layers must pass the function on.
   */
  readonly onConnected?: () => void
  /** The scope of this request: its log and its lifetime. */
  readonly scope: ScopeFacts
}

/**
 * The rules by which the enclave's wire connects. No rule can disable the verification of
 * certificates.
 */
export interface ConnectionRules {
  /** Root certificates in PEM. @default those of the platform */
  readonly ca?: readonly string[]
  /**
   * Throws if the wire must not send the request to this target. The wire checks again because
   * layers below the templates may have changed the method, the URL or the headers. `headers` has
   * their names. @default it may be sent
   */
  readonly checkTarget?: (target: {
    readonly method: string
    readonly url: string
    readonly headers?: readonly string[]
  }) => void
  /** Whether the wire may connect to an address. @default it may connect to every address */
  readonly mayConnect?: (address: string) => boolean
  /** The largest size of a request in bytes, after its placeholders are filled. @default 1024000 */
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
  /** The whole body. Its size is limited. It is encrypted if the call requested encryption. */
  readonly body: Uint8Array
}

/** Every line of each header, by name. */
export type HeaderLines = ReadonlyMap<string, readonly string[]>

/**
 * Returns the length of a text in UTF-8, in bytes. Makes no copy of the text, because the text may
 * contain a secret.
 */
export function utf8Length(text: string): number {
  return Buffer.byteLength(text)
}

/**
 * How many bytes a header line has besides its name and value: the colon, the space and the line
 * break.
 */
const LINE_BYTES = 4

/**
 * Computes the size of a request on the wire, in bytes: its URL, every header line and its body.
 */
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
 * Encodes a text into separate memory, which can be wiped. `Buffer.from` would store a short text
 * in a shared pool, where it stays readable.
 */
export function ownBytes(text: string, encoding: 'utf8' | 'latin1' = 'utf8'): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding))
  bytes.write(text, encoding)
  return bytes
}

/** Passes the bytes of a text to `use`, then wipes them. */
export function withBytes<Value>(text: string, use: (bytes: Buffer) => Value): Value {
  const bytes = ownBytes(text)
  try {
    return use(bytes)
  } finally {
    bytes.fill(0)
  }
}
