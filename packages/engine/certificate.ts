import {
  createHash,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { isBytes } from 'sluice/internal'

/** A certificate and its private key for a TLS server, in PEM. */
export interface IssuedCertificate {
  /** The certificate, in PEM. */
  readonly cert: string
  /** Its private key, in PEM. */
  readonly key: string
}

/** What a certificate is for. */
export interface IssueOptions {
  /** The host names and addresses that it is for. */
  readonly hosts: readonly string[]
  /** When it expires, in Unix milliseconds. @default when the authority's own does, a day after an hour ago */
  readonly expiresAt?: number
}

const issueNames: OptionNames<IssueOptions> = { hosts: true, expiresAt: true }

/** A certificate authority that clients must be configured to trust. Its key is never stored. */
export interface CertificateAuthority {
  /** Its own certificate in PEM, for clients to trust. */
  readonly ca: string
  /** A certificate for host names and IP addresses, valid for a day, or until another time: one that has expired, too. */
  issue(options: IssueOptions): IssuedCertificate
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** UTCTime has two digits for the year: 1950 to 2049. */
const LIFETIMES = { min: Date.UTC(1970, 0, 3), max: Date.UTC(2049, 11, 31) } as const

/**
 * A fresh certificate authority with a P-256 key, valid for a day from an hour ago.
 *
 * @example
 * const { ca, issue } = await createCertificateAuthority()
 * const { cert, key } = issue({ hosts: ['localhost', '127.0.0.1'] })
 */
export async function createCertificateAuthority(): Promise<CertificateAuthority> {
  const der = await import('asn1js')
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const authorityName = `Local authority ${randomBytes(8).toString('hex')}`
  const notBefore = new Date(Date.now() - HOUR)
  const notAfter = new Date(notBefore.getTime() + DAY)

  const sequence = (...value: Asn1[]): Asn1 => new der.Sequence({ value })
  const oid = (value: string): Asn1 => new der.ObjectIdentifier({ value })
  const bytes = (valueHex: Uint8Array): Asn1 => new der.OctetString({ valueHex })
  const bits = (valueHex: Uint8Array, unusedBits = 0): Asn1 =>
    new der.BitString({ valueHex, unusedBits })
  const yes = (): Asn1 => new der.Boolean({ value: true })
  /** `[tagNumber]` around bytes or another value. */
  const tagged = (tagNumber: number, content: Uint8Array | Asn1): Asn1 =>
    isBytes(content)
      ? new der.Primitive({ idBlock: { tagClass: 3, tagNumber }, valueHex: content })
      : new der.Constructed({ idBlock: { tagClass: 3, tagNumber }, value: [content] })
  const encode = (value: Asn1): Uint8Array => new Uint8Array(value.toBER())

  const nameOf = (commonName: string): Asn1 =>
    sequence(
      new der.Set({
        value: [sequence(oid('2.5.4.3'), new der.Utf8String({ value: commonName }))],
      }),
    )
  const extension = (id: string, isCritical: boolean, value: Asn1): Asn1 =>
    sequence(oid(id), ...(isCritical ? [yes()] : []), bytes(encode(value)))
  const signatureAlgorithm = (): Asn1 => sequence(oid('1.2.840.10045.4.3.2'))

  function certify(
    subject: string,
    key: KeyObject,
    extensions: readonly Asn1[],
    expires: Date = notAfter,
  ): string {
    const begins = new Date(Math.min(notBefore.getTime(), expires.getTime() - DAY))
    const content = sequence(
      tagged(0, new der.Integer({ value: 2 })),
      der.Integer.fromBigInt(BigInt(`0x01${randomBytes(15).toString('hex')}`)),
      signatureAlgorithm(),
      nameOf(authorityName),
      sequence(new der.UTCTime({ valueDate: begins }), new der.UTCTime({ valueDate: expires })),
      nameOf(subject),
      der.fromBER(spkiOf(key)).result,
      tagged(
        3,
        sequence(
          extension('2.5.29.14', false, bytes(keyIdOf(key))),
          extension('2.5.29.35', false, sequence(tagged(0, keyIdOf(authority.publicKey)))),
          ...extensions,
        ),
      ),
    )
    const signature = sign('sha256', encode(content), authority.privateKey)
    const certificate = encode(sequence(content, signatureAlgorithm(), bits(signature)))
    return new X509Certificate(certificate).toString()
  }

  const basicConstraints = (...value: Asn1[]): Asn1 =>
    extension('2.5.29.19', true, sequence(...value))
  /** The bits of KeyUsage (RFC 5280, 4.2.1.3), the first one on the left. */
  const keyUsage = (uses: number, unusedBits: number): Asn1 =>
    extension('2.5.29.15', true, bits(Uint8Array.of(uses), unusedBits))

  return {
    ca: certify(authorityName, authority.publicKey, [
      basicConstraints(yes(), new der.Integer({ value: 0 })),
      keyUsage(0b0000_0110, 1),
    ]),
    issue(options) {
      const { hosts, expiresAt = notAfter.getTime() } = checkOptions('issue', options, issueNames)
      checkNumber('expiresAt', expiresAt, LIFETIMES)
      const names = checkHosts(hosts).map(function alternative(host) {
        const address = addressBytes(host)
        return address === undefined ? tagged(2, Buffer.from(host)) : tagged(7, address)
      })
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const extensions = [
        basicConstraints(),
        keyUsage(0b1000_0000, 7),
        extension('2.5.29.37', false, sequence(oid('1.3.6.1.5.5.7.3.1'))),
        extension('2.5.29.17', false, sequence(...names)),
      ]
      const cert = certify('Local server', publicKey, extensions, new Date(expiresAt))
      return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
    },
  }
}

type Asn1 = InstanceType<typeof import('asn1js').BaseBlock>

function spkiOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

function keyIdOf(key: KeyObject): Uint8Array {
  return createHash('sha256').update(spkiOf(key)).digest().subarray(0, 20)
}

function checkHosts(hosts: readonly string[]): readonly string[] {
  if (!Array.isArray(hosts) || hosts.length === 0)
    throw new ValidationError('hosts must be a list of at least one host name or IP address')
  for (const [index, host] of hosts.entries()) {
    const isHost =
      typeof host === 'string' &&
      !host.includes('%') &&
      (isIP(host) !== 0 || /^(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/i.test(host))
    if (!isHost) throw new ValidationError(`hosts[${index}] must be a host name or an IP address`)
  }
  return hosts
}

/** The 4 or 16 bytes of an IP address; undefined for a host name. */
function addressBytes(host: string): Uint8Array | undefined {
  const version = isIP(host)
  if (version === 0) return undefined
  if (version === 4) return Uint8Array.from(host.split('.'), Number)
  // URL normalises an address to groups of hexadecimal digits, with one run of zeros left out at most.
  const [before = '', after] = new URL(`http://[${host}]`).hostname.slice(1, -1).split('::')
  const groupsOf = (text = ''): string[] => (text === '' ? [] : text.split(':'))
  const groups = [groupsOf(before), groupsOf(after)] as const
  const zeros = Array.from({ length: 8 - groups[0].length - groups[1].length }, () => '0')
  const digits = [...groups[0], ...zeros, ...groups[1]].map(group => group.padStart(4, '0'))
  return Buffer.from(digits.join(''), 'hex')
}
