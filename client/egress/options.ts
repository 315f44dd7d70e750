import { ValidationError } from '../../core/errors.js'
import { checkOptions, checkText, type OptionNames } from '../../core/options.js'
import { isBytes } from '../../crypto/bytes.js'
import { TextDecoder } from '../../platform/globals.js'
import { type FindProxy, parseProxies } from './proxies.js'

/** Text in PEM, or the bytes of a file of it. */
export type PEM = string | Uint8Array

/** What TLS connections to the service trust, and what they show of you. */
export interface TLSOptions {
  /** The certificates of the authorities to trust, in place of those that Node trusts. @default those that Node trusts */
  readonly ca?: PEM | readonly PEM[]
  /** A client certificate, and behind it those between it and its authority. With `key`. @default none */
  readonly cert?: PEM
  /** The private key of `cert`. */
  readonly key?: PEM
  /** Decrypts `key`. */
  readonly passphrase?: string
  /** The host name that the certificate of the service must have. @default the host of the URL */
  readonly servername?: string
}

const tlsNames: OptionNames<TLSOptions> = {
  ca: true,
  cert: true,
  key: true,
  passphrase: true,
  servername: true,
}

/** How connections leave this machine: requests and streams alike. */
export interface EgressOptions {
  /**
   * The URL of a proxy, or `'env'` for those that the environment names: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY.
   * @default no proxy
   */
  readonly proxy?: string
  /** What TLS connections trust, and what they show of you. @default what Node trusts, and nothing */
  readonly tls?: TLSOptions
}

/** The options, checked, with texts for bytes. */
export interface EgressSettings {
  readonly findProxy: FindProxy
  readonly tls: TLSSettings
}

/** The options of TLS, checked, with texts for bytes. */
export interface TLSSettings {
  readonly ca?: readonly string[]
  readonly cert?: string
  readonly key?: string
  readonly passphrase?: string
  readonly servername?: string
}

/** Checks the options; undefined where connections need nothing of their own. */
export function checkEgress({ proxy, tls }: EgressOptions): EgressSettings | undefined {
  const findProxy = proxy === undefined ? undefined : parseProxies(proxy)
  if (findProxy === undefined && tls === undefined) return undefined
  return { findProxy: findProxy ?? (() => undefined), tls: checkTLS(tls) }
}

function checkTLS(given: TLSOptions | undefined): TLSSettings {
  const { ca, cert, key, passphrase, servername } = checkOptions('tls', given, tlsNames)
  if ((cert === undefined) !== (key === undefined))
    throw new ValidationError('tls.cert and tls.key must be given together')
  if (passphrase !== undefined && typeof passphrase !== 'string')
    throw new ValidationError(`tls.passphrase must be a string, not ${typeof passphrase}`)
  if (passphrase !== undefined && key === undefined)
    throw new ValidationError('tls.passphrase must be given with tls.key')
  return {
    ...(ca === undefined ? {} : { ca: checkAuthorities(ca) }),
    ...(cert === undefined ? {} : { cert: checkPEM('tls.cert', cert, 'CERTIFICATE') }),
    ...(key === undefined ? {} : { key: checkPEM('tls.key', key, 'PRIVATE KEY') }),
    ...(passphrase === undefined ? {} : { passphrase }),
    ...(servername === undefined ? {} : { servername: checkHostName(servername) }),
  }
}

function checkAuthorities(ca: PEM | readonly PEM[]): readonly string[] {
  const list = Array.isArray(ca) ? (ca as readonly PEM[]) : [ca as PEM]
  if (list.length === 0) throw new ValidationError('tls.ca must not be empty')
  return list.map((each, index) =>
    checkPEM(list === ca ? `tls.ca[${index}]` : 'tls.ca', each, 'CERTIFICATE'),
  )
}

/** Text in PEM of a kind. A path is none: files are the caller's to read. */
function checkPEM(field: string, value: unknown, kind: string): string {
  if (typeof value !== 'string' && !isBytes(value))
    throw new ValidationError(`${field} must be text in PEM, or its bytes`)
  const decoded = typeof value === 'string' ? value : new TextDecoder().decode(value)
  // The mark of an encoding, with which some editors begin a file.
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

/** The blocks of a text in PEM that are whole. */
export function blocksOf(text: string): readonly string[] {
  return text.match(/^-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?^-----END \1-----/gm) ?? []
}

function checkHostName(value: unknown): string {
  const name = checkText('tls.servername', value)
  const isAddress = /^[\d.]+$/.test(name)
  if (isAddress || !/^[a-z\d_-]+(\.[a-z\d_-]+)*\.?$/i.test(name))
    throw new ValidationError('tls.servername must be a host name')
  return name
}
