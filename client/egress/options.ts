import { ValidationError } from '../../core/errors.js'
import { checkText, optional, readOptions, type Schema } from '../../core/options.js'
import { isBytes } from '../../crypto/bytes.js'
import { TextDecoder } from '../../platform/globals.js'
import { type FindProxy, parseProxies } from './proxies.js'

/** Text in PEM, or the bytes of a PEM file. */
export type PEM = string | Uint8Array

/**
 * The authorities that TLS connections to the service trust, and the client certificate that the
 * connections present.
 */
export interface TLSOptions {
  /**
   * The certificates of the authorities to trust, in place of Node's authorities.
   * @default those that Node trusts
   */
  readonly ca?: PEM | readonly PEM[]
  /**
   * A client certificate, followed by the intermediate certificates up to its authority. It needs
   * `key`.
   * @default none
   */
  readonly cert?: PEM
  /** The private key of `cert`. */
  readonly key?: PEM
  /** Decrypts `key`. */
  readonly passphrase?: string
  /** The host name that the certificate of the service must have. @default the host of the URL */
  readonly servername?: string
}

/** How the connections of requests and streams leave this machine. */
export interface EgressOptions {
  /**
   * The URL of a proxy. With `'env'`, the environment names the proxies: HTTPS_PROXY, HTTP_PROXY,
   * ALL_PROXY and NO_PROXY.
   * @default no proxy
   */
  readonly proxy?: string
  /**
   * The authorities that TLS connections trust, and the client certificate that the connections
   * present.
   * @default what Node trusts, and no certificate
   */
  readonly tls?: TLSOptions
}

/** The checked options. Bytes have been decoded to text. */
export interface EgressSettings {
  readonly findProxy: FindProxy
  readonly tls: TLSSettings
}

/**
 * Checks the options. Returns undefined if connections need neither a proxy nor settings of TLS.
 */
export function checkEgress({ proxy, tls }: EgressOptions): EgressSettings | undefined {
  const findProxy = proxy === undefined ? undefined : parseProxies(proxy)
  if (findProxy === undefined && tls === undefined) return undefined
  return { findProxy: findProxy ?? (() => undefined), tls: checkTLS(tls) }
}

const tlsSchema = {
  ca: optional(checkAuthorities),
  cert: optional((field, value) => checkPEM(field, value, 'CERTIFICATE')),
  key: optional((field, value) => checkPEM(field, value, 'PRIVATE KEY')),
  passphrase: optional((field, value) => {
    if (typeof value === 'string') return value
    throw new ValidationError(`${field} must be a string, not ${typeof value}`)
  }),
  servername: optional(checkHostName),
} satisfies Schema<TLSOptions>

/** The checked options of TLS. Bytes have been decoded to text. */
export interface TLSSettings extends Omit<TLSOptions, 'ca' | 'cert' | 'key'> {
  readonly ca?: readonly string[]
  readonly cert?: string
  readonly key?: string
}

function checkTLS(given: TLSOptions | undefined): TLSSettings {
  const tls = readOptions('tls', given, tlsSchema, 'tls.')
  if ((tls.cert === undefined) !== (tls.key === undefined))
    throw new ValidationError('tls.cert and tls.key must be given together')
  if (tls.passphrase !== undefined && tls.key === undefined)
    throw new ValidationError('tls.passphrase must be given with tls.key')
  return tls
}

function checkAuthorities(field: string, value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (list.length === 0) throw new ValidationError(`${field} must not be empty`)
  return list.map((each, index) =>
    checkPEM(list === value ? `${field}[${index}]` : field, each, 'CERTIFICATE'),
  )
}

/**
 * Checks text in PEM of the given kind, and returns it. A path is refused, because the caller must
 * read the file.
 */
function checkPEM(field: string, value: unknown, kind: string): string {
  if (typeof value !== 'string' && !isBytes(value))
    throw new ValidationError(`${field} must be text in PEM, or its bytes`)
  const decoded = typeof value === 'string' ? value : new TextDecoder().decode(value)
  // Some editors begin a file with a byte order mark.
  const text = decoded.replaceAll('\ufeff', '')
  if (!new RegExp(`^-----BEGIN ([A-Z0-9]+ )*${kind}-----`, 'm').test(text))
    throw new ValidationError(
      `${field} must be in PEM, with a line "-----BEGIN ${kind}-----": what a file holds, and not its path`,
    )
  const [begun, ended] = ['BEGIN', 'END'].map(word => text.split(`-----${word} `).length - 1)
  const whole = blocksOf(text).length
  if (begun !== whole || ended !== whole)
    throw new ValidationError(
      `${field} must be whole: each line "-----BEGIN …-----" must have its line "-----END …-----"`,
    )
  return text
}

/** Returns the complete blocks of a text in PEM. */
export function blocksOf(text: string): readonly string[] {
  return text.match(/^-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?^-----END \1-----/gm) ?? []
}

function checkHostName(field: string, value: unknown): string {
  const name = checkText(field, value)
  const isAddress = /^[\d.]+$/.test(name)
  if (isAddress || !/^[a-z\d_-]+(\.[a-z\d_-]+)*\.?$/i.test(name))
    throw new ValidationError(`${field} must be a host name`)
  return name
}
