import { ValidationError } from '../../core/errors.js'
import { checkBoolean, checkObject, checkOptions, type OptionNames } from '../../core/options.js'
import { VaultError } from './errors.js'

/** Where a secret may go. */
export interface SecretPolicy {
  /** The hosts: `api.example.com`, or `.example.com` for all below it; with a port, as `api.example.com:8443`, only on that. */
  readonly hosts: readonly string[]
  /** The methods. @default every method */
  readonly methods?: readonly string[]
  /** Where in the request: `body`, `header`, or `header:authorization` for that one. @default body and headers */
  readonly in?: readonly string[]
  /**
   * Whether the request may bring its own root certificates. Who brings them and sits on the way to the host can be the host.
   * @default false
   */
  readonly customRoots?: boolean
}

/** Where a secret may go: `anywhere` has to be said. */
export type SecretUse = SecretPolicy | 'anywhere'

/** A place that a secret is put into. */
export interface SecretTarget {
  /** The HTTP method of the request. */
  readonly method: string
  /** Where the request goes. */
  readonly url: string
  /** `body`, or the name of a header behind `header:`; absent where the place is not looked at. */
  readonly place?: string
  /** Whether the request brings its own root certificates. */
  readonly hasCustomRoots: boolean
}

const names: OptionNames<SecretPolicy> = {
  hosts: true,
  methods: true,
  in: true,
  customRoots: true,
}

/*
 * What is encrypted of a secret that has a policy: 4 bytes, of which the first is in no text; the length of the policy, 2 bytes;
 * the policy, as JSON; the value. The encryption authenticates all, and only an enclave can open it. Without these 4 bytes it
 * is a value alone, as vaults of the reference have it.
 */
const MAGIC: readonly number[] = [0xff, 0x53, 0x50, 1]
const HEAD = MAGIC.length + 2

const HOST = /^(\.?)((?:[a-z0-9_-]+\.)*[a-z0-9_-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/

/** Checks a policy, and returns it in its normal form. */
export function checkUse(field: string, given: SecretUse): SecretUse {
  if (given === 'anywhere') return given
  const {
    hosts,
    methods,
    in: places,
    customRoots,
  } = checkOptions(field, checkObject(field, given), names)
  const isOpen = customRoots !== undefined && checkBoolean(`${field}.customRoots`, customRoots)
  return {
    hosts: checkList(`${field}.hosts`, hosts, checkHost),
    ...(methods === undefined
      ? {}
      : { methods: checkList(`${field}.methods`, methods, checkMethod) }),
    ...(places === undefined ? {} : { in: checkList(`${field}.in`, places, checkPlace) }),
    ...(isOpen ? { customRoots: true } : {}),
  }
}

function checkList(
  field: string,
  given: unknown,
  check: (field: string, text: string) => string,
): readonly string[] {
  if (!Array.isArray(given) || given.length === 0)
    throw new ValidationError(`${field} must be a list that names at least one`)
  return given.map((each, index) => check(`${field}[${index}]`, String(each).toLowerCase()))
}

function checkHost(field: string, host: string): string {
  const [, dot, name = '', port] = HOST.exec(host) ?? []
  if (dot === undefined || Number(port ?? 1) > 65_535 || Number(port ?? 1) < 1)
    throw new ValidationError(
      `${field} must be a host, as api.example.com, or a suffix, as .example.com, with or without a port`,
    )
  if (dot === '.' && !name.includes('.'))
    throw new ValidationError(`${field} must not be the suffix of a whole top-level domain`)
  return host
}

function checkMethod(field: string, method: string): string {
  if (!/^[a-z-]{1,32}$/.test(method))
    throw new ValidationError(`${field} must be an HTTP method, such as POST`)
  return method.toUpperCase()
}

function checkPlace(field: string, place: string): string {
  if (!/^(body|header(:[!#$%&'*+.^_`|~0-9a-z-]+)?)$/.test(place))
    throw new ValidationError(`${field} must be body, header, or header: and the name of one`)
  return place
}

/** The bytes to encrypt of a value with its policy. */
export function withUse(use: SecretUse, value: Uint8Array): Uint8Array {
  const policy = new TextEncoder().encode(JSON.stringify(use))
  const bytes = new Uint8Array(HEAD + policy.length + value.length)
  bytes.set(MAGIC)
  bytes.set([policy.length >> 8, policy.length & 255], MAGIC.length)
  bytes.set(policy, HEAD)
  bytes.set(value, HEAD + policy.length)
  return bytes
}

/** A decrypted secret. */
export interface OpenedSecret {
  /** Absent where the secret was stored without a policy. */
  readonly use?: SecretUse
  /** A view of the given bytes. */
  readonly value: Uint8Array
}

/** Reads what was encrypted of a secret. Throws VaultError where it has a policy that can't be read. */
export function readUse(bytes: Uint8Array): OpenedSecret {
  if (bytes[0] !== MAGIC[0]) return { value: bytes }
  const length = ((bytes[MAGIC.length] ?? 0) << 8) | (bytes[MAGIC.length + 1] ?? 0)
  const isKnown = MAGIC.every((byte, index) => byte === bytes[index])
  if (!isKnown || bytes.length < HEAD + length)
    throw new VaultError('it has a policy that this version can not read')
  try {
    const use = JSON.parse(new TextDecoder().decode(bytes.subarray(HEAD, HEAD + length)))
    return { use: checkUse('policy', use), value: bytes.subarray(HEAD + length) }
  } catch {
    // No cause: it could show the policy.
    throw new VaultError('it has a policy that this version can not read')
  }
}

/** The rule that keeps a secret from a place; undefined if it may go there. */
export function findViolation(use: SecretUse, target: SecretTarget): string | undefined {
  if (use === 'anywhere') return undefined
  const { protocol, hostname, port } = new URL(target.url)
  const actual = { hostname: hostname.toLowerCase(), port: port === '' ? '443' : port }
  const { hosts, methods, in: places, customRoots = false } = use
  if (protocol !== 'https:') return 'a secret with a policy goes out over https alone'
  if (!hosts.some(host => isHost(host, actual))) return 'its policy does not name this host'
  if (methods !== undefined && !methods.includes(target.method.toUpperCase()))
    return `its policy does not name the method ${target.method}`
  if (target.hasCustomRoots && !customRoots)
    return 'its policy does not allow customRootCaCertPem, with which others could be this host'
  const { place } = target
  if (places === undefined || place === undefined) return undefined
  const isNamed = places.includes(place) || (place !== 'body' && places.includes('header'))
  return isNamed ? undefined : `its policy does not name the place ${place}`
}

function isHost(named: string, { hostname, port }: { hostname: string; port: string }): boolean {
  const [, dot, name = '', onPort] = HOST.exec(named) ?? []
  if (onPort !== undefined && Number(onPort) !== Number(port)) return false
  return dot === '.' ? hostname.endsWith(`.${name}`) : hostname === name
}
