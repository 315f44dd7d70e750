import {
  createHash,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import { number, optional, readOptions, type Schema, ValidationError } from 'sluice/core'

/** A certificate and its private key for a TLS server, in PEM. */
export interface IssuedCertificate {
  /** The certificate, in PEM. */
  readonly cert: string
  /** The private key of the certificate, in PEM. */
  readonly key: string
}

/** The hosts and the lifetime of a certificate. */
export interface IssueOptions {
  /** The host names and IP addresses that the certificate is valid for. */
  readonly hosts: readonly string[]
  /**
   * When the certificate expires, in Unix milliseconds. @default when the authority's own does, a
   * day after an hour ago
   */
  readonly expiresAt?: number
}

/** A certificate authority that clients must be configured to trust. Its key is never stored. */
export interface CertificateAuthority {
  /** The authority's own certificate, in PEM. Clients must trust it. */
  readonly ca: string
  /**
   * Issues a certificate for host names and IP addresses. It expires with the authority's own
   * certificate, or at `expiresAt`. `expiresAt` may be in the past, for tests with an expired
   * certificate.
   */
  issue(options: IssueOptions): IssuedCertificate
}

const HOUR = 3_600_000
const DAY = 24 * HOUR

const schema = {
  hosts: checkHosts,
  // UTCTime has two digits for the year, so it covers 1950 to 2049.
  expiresAt: optional(number({ min: Date.UTC(1970, 0, 3), max: Date.UTC(2049, 11, 31) })),
} satisfies Schema<IssueOptions>

/** Encodes a value in DER: its tag, its length and its content. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents)
  const hex = content.length.toString(16)
  const size = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
  // Before a length of 128 or more, a byte says how many bytes the length has.
  const prefix = content.length < 128 ? [tag] : [tag, 0x80 | size.length]
  return Buffer.concat([Uint8Array.from(prefix), size, content])
}

const sequence = (...values: readonly Uint8Array[]): Buffer => der(0x30, ...values)
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'))
const integer = (...bytes: readonly number[]): Buffer => der(0x02, Uint8Array.from(bytes))
/** Encodes a BIT STRING. Its last `unused` bits have no meaning. */
const bits = (unused: number, bytes: Uint8Array): Buffer => der(0x03, Uint8Array.of(unused), bytes)
const TRUE = der(0x01, Uint8Array.of(0xff))
const ecdsaWithSHA256 = sequence(oid('2a8648ce3d040302'))

function nameOf(commonName: string): Buffer {
  return sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(commonName)))))
}

function utcTime(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\D/g, '').slice(2, 14)
  return der(0x17, Buffer.from(`${digits}Z`))
}

/** Encodes an extension. `id` is the last byte of its object identifier (RFC 5280, 4.2.1). */
function extension(id: string, isCritical: boolean, value: Buffer): Buffer {
  return sequence(oid(`551d${id}`), ...(isCritical ? [TRUE] : []), der(0x04, value))
}

const basicConstraints = (...value: readonly Buffer[]): Buffer =>
  extension('13', true, sequence(...value))
/** Encodes the uses of a key (RFC 5280, 4.2.1.3). The leftmost bit stands for the first use. */
const keyUsage = (uses: number, unused: number): Buffer =>
  extension('0f', true, bits(unused, Uint8Array.of(uses)))

/**
 * Creates a certificate authority with a new P-256 key. Its certificate is valid for one day,
 * starting one hour before now.
 *
 * @example
 * const { ca, issue } = await createCertificateAuthority()
 * const { cert, key } = issue({ hosts: ['localhost', '127.0.0.1'] })
 */
export async function createCertificateAuthority(): Promise<CertificateAuthority> {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const authorityName = nameOf(`Local authority ${randomBytes(8).toString('hex')}`)
  const notBefore = Date.now() - HOUR
  const notAfter = notBefore + DAY

  function certify(
    subject: Buffer,
    key: KeyObject,
    extensions: readonly Buffer[],
    expires = notAfter,
  ): string {
    const authorityID = der(0x80, keyIDOf(authority.publicKey))
    const content = sequence(
      der(0xa0, integer(2)),
      integer(1, ...randomBytes(15)),
      ecdsaWithSHA256,
      authorityName,
      sequence(utcTime(Math.min(notBefore, expires - DAY)), utcTime(expires)),
      subject,
      spkiOf(key),
      der(
        0xa3,
        sequence(
          extension('0e', false, der(0x04, keyIDOf(key))),
          extension('23', false, sequence(authorityID)),
          ...extensions,
        ),
      ),
    )
    const signature = sign('sha256', content, authority.privateKey)
    const certificate = sequence(content, ecdsaWithSHA256, bits(0, signature))
    return new X509Certificate(certificate).toString()
  }

  return {
    ca: certify(authorityName, authority.publicKey, [
      basicConstraints(TRUE, integer(0)),
      keyUsage(0b0000_0110, 1),
    ]),
    issue(options) {
      const { hosts, expiresAt } = readOptions('issue', options, schema)
      const names = hosts.map(function alternative(host) {
        const address = addressBytes(host)
        return address === undefined ? der(0x82, Buffer.from(host)) : der(0x87, address)
      })
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const extensions = [
        basicConstraints(),
        keyUsage(0b1000_0000, 7),
        extension('25', false, sequence(oid('2b06010505070301'))),
        extension('11', false, sequence(...names)),
      ]
      const cert = certify(nameOf('Local server'), publicKey, extensions, expiresAt)
      return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
    },
  }
}

function spkiOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

function keyIDOf(key: KeyObject): Uint8Array {
  return createHash('sha256').update(spkiOf(key)).digest().subarray(0, 20)
}

function checkHosts(field: string, hosts: unknown): readonly string[] {
  if (!Array.isArray(hosts) || hosts.length === 0)
    throw new ValidationError(`${field} must be a list of at least one host name or IP address`)
  for (const [index, host] of hosts.entries()) {
    const isHost =
      typeof host === 'string' &&
      !host.includes('%') &&
      (isIP(host) !== 0 || /^(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/i.test(host))
    if (!isHost)
      throw new ValidationError(`${field}[${index}] must be a host name or an IP address`)
  }
  return hosts
}

/** The 4 or 16 bytes of an IP address; undefined for a host name. */
function addressBytes(host: string): Uint8Array | undefined {
  const version = isIP(host)
  if (version === 0) return undefined
  if (version === 4) return Uint8Array.from(host.split('.'), Number)
  // URL normalises an IPv6 address to groups of hexadecimal digits. At most one run of zero groups
  // is replaced by `::`.
  const [before = '', after] = new URL(`http://[${host}]`).hostname.slice(1, -1).split('::')
  const groupsOf = (text = ''): string[] => (text === '' ? [] : text.split(':'))
  const groups = [groupsOf(before), groupsOf(after)] as const
  const zeros = Array.from({ length: 8 - groups[0].length - groups[1].length }, () => '0')
  const digits = [...groups[0], ...zeros, ...groups[1]].map(group => group.padStart(4, '0'))
  return Buffer.from(digits.join(''), 'hex')
}
