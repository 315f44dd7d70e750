import { randomBytes } from 'node:crypto'
import { ValidationError } from '../../core/errors.js'
import {
  adviseName,
  checkBoolean,
  checkObject,
  optional,
  type Rule,
  readOptions,
  type Schema,
} from '../../core/options.js'
import { VaultError } from './errors.js'

/** The full name of a secret. */
export interface SecretName {
  /** An address, as 40 hexadecimal digits. */
  readonly owner: string
  /** A group of names, 1 to 64 bytes: `main` unless another is given. */
  readonly namespace: string
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
}

/** The name of a secret; the namespace defaults to main, the owner to that of the vault. */
export interface SecretRef {
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
  /** A group of names, 1 to 64 bytes. @default 'main' */
  readonly namespace?: string
  /** An address: 40 hexadecimal digits of either case, with or without 0x. */
  readonly owner?: string
}

const MAX_LENGTH = 64

/** The full name of a secret in its normal form. */
export function checkName(name: SecretRef, defaultOwner?: string): SecretName {
  if (typeof name !== 'object' || name === null)
    throw new ValidationError('name must be an object with key, namespace and owner')
  return {
    owner: checkOwner('owner', name.owner ?? defaultOwner),
    namespace: checkNamespace(name.namespace),
    key: checkWord('key', name.key),
  }
}

/** A namespace; main if none or an empty one is given. */
export function checkNamespace(namespace: string | undefined): string {
  return namespace === undefined || namespace === '' ? 'main' : checkWord('namespace', namespace)
}

/** An address as 40 lower-case hexadecimal digits. */
export function checkOwner(field: string, owner: unknown): string {
  const [, digits] = /^(?:0x)?([0-9a-f]{40})$/i.exec(typeof owner === 'string' ? owner : '') ?? []
  if (digits === undefined)
    throw new ValidationError(`${field} must be an address: 40 hexadecimal digits`)
  // The label of this address is the one of encrypted responses, which anybody may have decrypted.
  if (/^0+$/.test(digits)) throw new ValidationError(`${field} must not be the zero address`)
  return digits.toLowerCase()
}

/** A random address, without a key. */
export function randomOwner(): string {
  return randomBytes(20).toString('hex')
}

function checkWord(field: string, word: unknown): string {
  if (typeof word !== 'string' || word === '')
    throw new ValidationError(`${field} must be a string that is not empty`)
  if (!/^\w+$/.test(word))
    throw new ValidationError(`${field} must only hold letters of ASCII, digits and _`)
  if (word.length > MAX_LENGTH)
    throw new ValidationError(`${field} must have at most ${MAX_LENGTH} bytes, not ${word.length}`)
  return word
}

/** The name of a secret in messages. */
export function formatName({ owner, namespace, key }: SecretName): string {
  return `0x${owner}::${namespace}::${key}`
}

/**
 * The file name of a key or namespace, which differs from others in more than case and is not
 * reserved on any system. Names have no '-', so it marks the changed characters.
 */
export function fileNameOf(word: string): string {
  const lower = word.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)
  return /^(con|prn|aux|nul|com\d|lpt\d)$/.test(lower) ? `${lower}-` : lower
}

/** Where a secret may go. */
export interface SecretPolicy {
  /**
   * The hosts: `api.example.com`, or `.example.com` for all below it; with a port, as
   * `api.example.com:8443`, only on that.
   */
  readonly hosts: readonly string[]
  /** The methods: those that are registered with IANA. @default every method */
  readonly methods?: readonly string[]
  /**
   * The paths: `/v1/accounts`, or `/v1/accounts/*` for all below it, upper and lower case as they
   * are. @default every path
   */
  readonly paths?: readonly string[]
  /**
   * Where in the request: `body`, `header`, or `header:authorization` for that one. @default body
   * and headers
   */
  readonly in?: readonly string[]
  /**
   * Whether the request may bring its own root certificates. Who brings them and sits on the way to
   * the host can be the host.
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
  /** The names of its headers; absent where they are not looked at. */
  readonly headers?: readonly string[]
}

/** The methods of the IANA registry that an enclave sends. */
const METHODS: readonly string[] = [
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'],
  ...['ACL', 'BASELINE-CONTROL', 'BIND', 'CHECKIN', 'CHECKOUT', 'COPY', 'LABEL', 'LINK', 'LOCK'],
  ...['MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL', 'MKREDIRECTREF', 'MKWORKSPACE', 'MOVE'],
  ...['ORDERPATCH', 'PROPFIND', 'PROPPATCH', 'REBIND', 'REPORT', 'SEARCH', 'UNBIND', 'UNCHECKOUT'],
  ...['UNLINK', 'UNLOCK', 'UPDATE', 'UPDATEREDIRECTREF', 'VERSION-CONTROL'],
]

/** Headers by which some servers take another method or path than that of the request line. */
const METHOD_HEADERS = ['x-http-method', 'x-http-method-override', 'x-method-override']
const PATH_HEADERS = ['x-original-url', 'x-override-url', 'x-rewrite-url']

/*
 * What is encrypted of a secret that has a policy: 4 bytes, of which the first is in no text; the
 * length of the policy, 2 bytes; the policy, as JSON; the value. The encryption authenticates all,
 * and only an enclave can open it. Without these 4 bytes it is a value alone, as vaults of the
 * reference have it.
 */
const MAGIC: readonly number[] = [0xff, 0x53, 0x50, 1]
const HEAD = MAGIC.length + 2

const HOST = /^(\.?)((?:[a-z0-9_-]+\.)*[a-z0-9_-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/

/**
 * Checks a policy, and returns it in its normal form. `isPublicSuffix` says below which names
 * anybody can have a host: whoever stores a secret gives it, and a policy that was stored is read
 * without it.
 */
export function checkUse(
  field: string,
  given: SecretUse,
  isPublicSuffix: (name: string) => boolean = () => false,
): SecretUse {
  if (given === 'anywhere') return given
  const rules = {
    hosts: listOf((each, host) => checkHost(each, host, isPublicSuffix)),
    methods: optional(listOf(checkMethod)),
    paths: optional(listOf(checkPath)),
    in: optional(listOf(checkPlace)),
    customRoots: optional(checkBoolean),
  } satisfies Schema<SecretPolicy>
  const checked = readOptions(field, checkObject(field, given), rules, `${field}.`)
  const { customRoots, ...policy } = checked
  return customRoots === true ? { ...policy, customRoots } : policy
}

/** The rule of a list that names at least one. */
function listOf(check: (field: string, text: string) => string): Rule<readonly string[]> {
  return function checkList(field, given) {
    if (!Array.isArray(given) || given.length === 0)
      throw new ValidationError(`${field} must be a list that names at least one`)
    return given.map((each, index) => check(`${field}[${index}]`, String(each)))
  }
}

function checkHost(
  field: string,
  given: string,
  isPublicSuffix: (name: string) => boolean,
): string {
  const host = given.toLowerCase()
  const [, dot, name = '', port] = HOST.exec(host) ?? []
  if (dot === undefined || Number(port ?? 1) > 65_535 || Number(port ?? 1) < 1)
    throw new ValidationError(
      `${field} must be a host, as api.example.com, or a suffix, as .example.com, with or without a port`,
    )
  if (dot === '.' && (!name.includes('.') || isPublicSuffix(name)))
    throw new ValidationError(
      `${field} must not be a public suffix, as .com, .co.uk or .github.io, below which anybody can have a host`,
    )
  return host
}

function checkMethod(field: string, given: string): string {
  const method = given.toUpperCase()
  if (METHODS.includes(method)) return method
  throw new ValidationError(
    `${field} must be a registered HTTP method: ${adviseName(given, METHODS)}`,
  )
}

function checkPath(field: string, path: string): string {
  const { text, isPrefix } = readPattern(path)
  if (text === undefined || (!isPrefix && path.includes('*')) || /\*./.test(path))
    throw new ValidationError(
      `${field} must be a path, as /v1/accounts, or all below one, as /v1/accounts/*, written as in a URL and in one way only`,
    )
  return path
}

function checkPlace(field: string, given: string): string {
  const place = given.toLowerCase()
  if (!/^(body|header(:[!#$%&'*+.^_`|~0-9a-z-]+)?)$/.test(place))
    throw new ValidationError(`${field} must be body, header, or header: and the name of one`)
  return place
}

/**
 * Whether a value has the shape of a policy, and can be shown: it may break rules that are newer
 * than it.
 */
export function isUse(value: unknown): value is SecretUse {
  if (value === 'anywhere') return true
  if (typeof value !== 'object' || value === null) return false
  const { hosts, methods = [], paths = [], in: places = [], customRoots } = value as SecretPolicy
  const isList = (list: unknown): boolean =>
    Array.isArray(list) && list.every(each => /^[!-~]+$/.test(String(each)))
  return [hosts, methods, paths, places].every(isList) && (customRoots ?? true) === true
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

/**
 * Reads what was encrypted of a secret. Throws VaultError where it has a policy that can't be read.
 */
export function readUse(bytes: Uint8Array): OpenedSecret {
  if (bytes[0] !== MAGIC[0]) return { value: bytes }
  const length = ((bytes[MAGIC.length] ?? 0) << 8) | (bytes[MAGIC.length + 1] ?? 0)
  const isKnown = MAGIC.every((byte, index) => byte === bytes[index])
  if (!isKnown || bytes.length < HEAD + length)
    throw new VaultError('it has a policy that this version can not read')
  try {
    const use = JSON.parse(new TextDecoder().decode(bytes.subarray(HEAD, HEAD + length)))
    return { use: checkUse('policy', use), value: bytes.subarray(HEAD + length) }
  } catch (thrown) {
    // No cause: that of JSON.parse would show the policy.
    const why = thrown instanceof ValidationError ? `: ${thrown.message}` : ''
    throw new VaultError(`it has a policy that this version can not read${why}`)
  }
}

/** The rule that keeps a secret from a place; undefined if it may go there. */
export function findViolation(use: SecretUse, target: SecretTarget): string | undefined {
  if (use === 'anywhere') return undefined
  const { protocol, hostname, port, pathname } = new URL(target.url)
  const actual = { hostname: hostname.toLowerCase(), port: port === '' ? '443' : port }
  const { hosts, methods, paths, in: places, customRoots = false } = use
  const { headers = [] } = target
  const other = (names: readonly string[]): string | undefined =>
    headers.find(each => names.includes(each.toLowerCase()))
  if (protocol !== 'https:') return 'a secret with a policy goes out over https alone'
  if (!hosts.some(host => isHost(host, actual))) return 'its policy does not name this host'
  if (methods !== undefined && !methods.includes(target.method.toUpperCase()))
    return `its policy does not name the method ${target.method}`
  if (methods !== undefined && other(METHOD_HEADERS) !== undefined)
    return `its policy names methods, and ${other(METHOD_HEADERS)} could name another`
  if (paths !== undefined) {
    const path = readPath(pathname)
    if (path === undefined) return 'its policy names paths, and this one can be read in two ways'
    if (!paths.some(named => isPath(named, path))) return 'its policy does not name this path'
    if (other(PATH_HEADERS) !== undefined)
      return `its policy names paths, and ${other(PATH_HEADERS)} could name another`
  }
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

/**
 * The characters of a path that has one reading: a semicolon begins parameters for some servers,
 * and ends nothing for others.
 */
const PATH = /^\/(?:[A-Za-z0-9\-._~!$&'()*+,=:@/]|%[0-9A-Fa-f]{2})*$/
/**
 * What may be encoded: nothing that a server which decodes before, or twice, takes for a separator,
 * a dot or an encoding.
 */
const ENCODED = /^[ !$&'()*+,=:@\-_~\p{L}\p{Nd}]*$/u

/**
 * The decoded text of a path; undefined for one that servers on the way may read in different ways,
 * as they decode, collapse and resolve it at different times.
 */
function readPath(path: string): string | undefined {
  if (!PATH.test(path)) return undefined
  try {
    for (const [encoded] of path.matchAll(/(?:%[0-9A-Fa-f]{2})+/g))
      if (!ENCODED.test(decodeURIComponent(encoded))) return undefined
    const text = decodeURIComponent(path)
    const [, ...segments] = text.split('/')
    // Some file systems drop dots and spaces at the end, so that `.. ` is `..`.
    const isPlain = segments.every(
      (each, at) => !/[. ]$/.test(each) && (each !== '' || at === segments.length - 1),
    )
    return isPlain ? text : undefined
  } catch {
    return undefined
  }
}

/** Reads a path of a policy: its text, and whether it stands for all that begins so. */
function readPattern(named: string): {
  readonly text: string | undefined
  readonly isPrefix: boolean
} {
  const isPrefix = named.endsWith('/*')
  return { text: readPath(isPrefix ? named.slice(0, -1) : named), isPrefix }
}

function isPath(named: string, path: string): boolean {
  const { text, isPrefix } = readPattern(named)
  if (text === undefined) return false
  return isPrefix ? path.startsWith(text) : path === text
}
