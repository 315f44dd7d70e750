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
  /** The address of the owner, as 40 hexadecimal digits. */
  readonly owner: string
  /** The namespace of the secret, 1 to 64 bytes. It is `main` unless another is given. */
  readonly namespace: string
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
}

/**
 * The name of a secret. The namespace defaults to `main`, and the owner defaults to the owner of
 * the vault.
 */
export interface SecretRef {
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
  /** The namespace of the secret, 1 to 64 bytes. @default 'main' */
  readonly namespace?: string
  /** The address of the owner: 40 hexadecimal digits in upper or lower case, with or without 0x. */
  readonly owner?: string
}

const MAX_LENGTH = 64

/** Checks the name of a secret, and returns the full name in its normal form. */
export function checkName(name: SecretRef, defaultOwner?: string): SecretName {
  if (typeof name !== 'object' || name === null)
    throw new ValidationError('name must be an object with key, namespace and owner')
  return {
    owner: checkOwner('owner', name.owner ?? defaultOwner),
    namespace: checkNamespace(name.namespace),
    key: checkWord('key', name.key),
  }
}

/** Checks a namespace. Returns `main` for an absent or empty namespace. */
export function checkNamespace(namespace: string | undefined): string {
  return namespace === undefined || namespace === '' ? 'main' : checkWord('namespace', namespace)
}

/** Checks an address, and returns it as 40 lower-case hexadecimal digits. */
export function checkOwner(field: string, owner: unknown): string {
  const [, digits] = /^(?:0x)?([0-9a-f]{40})$/i.exec(typeof owner === 'string' ? owner : '') ?? []
  if (digits === undefined)
    throw new ValidationError(`${field} must be an address: 40 hexadecimal digits`)
  // The zero address has the same label as encrypted responses, which anybody may ask the vault to
  // decrypt.
  if (/^0+$/.test(digits)) throw new ValidationError(`${field} must not be the zero address`)
  return digits.toLowerCase()
}

/** Returns a random address. Nobody has a key for it. */
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

/** Formats the name of a secret for messages. */
export function formatName({ owner, namespace, key }: SecretName): string {
  return `0x${owner}::${namespace}::${key}`
}

/**
 * Converts a key or namespace to a file name. Different names get file names that differ in more
 * than case. No file name is reserved on any system. A '-' marks each change, because names never
 * contain one.
 */
export function fileNameOf(word: string): string {
  const lower = word.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)
  return /^(con|prn|aux|nul|com\d|lpt\d)$/.test(lower) ? `${lower}-` : lower
}

/** The policy of a secret, which says where the secret may go. */
export interface SecretPolicy {
  /**
   * The allowed hosts. `api.example.com` is one host, and `.example.com` is every host below it. A
   * host with a port, such as `api.example.com:8443`, allows only that port.
   */
  readonly hosts: readonly string[]
  /** The allowed methods. Each must be registered with IANA. @default every method */
  readonly methods?: readonly string[]
  /**
   * The allowed paths. `/v1/accounts` is one path, and `/v1/accounts/*` is every path below it.
   * Case matters. @default every path
   */
  readonly paths?: readonly string[]
  /**
   * The allowed places in the request: `body`, `header` for every header, or `header:authorization`
   * for that header only. @default body and headers
   */
  readonly in?: readonly string[]
  /**
   * The headers that a request may carry besides common ones, such as `accept`, and those that `in`
   * names. A policy that names headers, methods or paths forbids every other header, because some
   * servers read another method or path from it. Case does not matter, and `_` equals `-`.
   * @default common headers, or every header if neither methods nor paths are named
   */
  readonly headers?: readonly string[]
  /**
   * Whether the request may bring its own root certificates. An attacker who brings them and
   * controls the network can impersonate the host.
   * @default false
   */
  readonly customRoots?: boolean
}

/** The policy of a secret. A secret without limits needs an explicit `anywhere`. */
export type SecretUse = SecretPolicy | 'anywhere'

/** A target that a secret is checked against: the request and the place in it. */
export interface SecretTarget {
  /** The HTTP method of the request. */
  readonly method: string
  /** The URL that the request goes to. */
  readonly url: string
  /**
   * The place in the request: `body`, or `header:` and the name of a header. Absent if the place is
   * not checked.
   */
  readonly place?: string
  /** Whether the request brings its own root certificates. */
  readonly hasCustomRoots: boolean
  /** The names of the request's headers. Absent if the headers are not checked. */
  readonly headers?: readonly string[]
}

/** The methods that an enclave sends, from the IANA registry. */
const METHODS: readonly string[] = [
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'],
  ...['ACL', 'BASELINE-CONTROL', 'BIND', 'CHECKIN', 'CHECKOUT', 'COPY', 'LABEL', 'LINK', 'LOCK'],
  ...['MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL', 'MKREDIRECTREF', 'MKWORKSPACE', 'MOVE'],
  ...['ORDERPATCH', 'PROPFIND', 'PROPPATCH', 'REBIND', 'REPORT', 'SEARCH', 'UNBIND', 'UNCHECKOUT'],
  ...['UNLINK', 'UNLOCK', 'UPDATE', 'UPDATEREDIRECTREF', 'VERSION-CONTROL'],
]

/**
 * The headers that no server reads a method, a path or a host from. A policy that names methods or
 * paths allows these headers without naming them.
 */
const COMMON_HEADERS: ReadonlySet<string> = new Set([
  ...['accept', 'accept-charset', 'accept-encoding', 'accept-language', 'cache-control', 'pragma'],
  ...['content-encoding', 'content-language', 'content-type', 'content-md5', 'content-digest'],
  ...['api-key', 'apikey', 'authorization', 'x-access-token', 'x-api-key', 'x-auth-token'],
  ...['date', 'digest', 'dnt', 'priority', 'range', 'repr-digest', 'user-agent', 'want-digest'],
  ...['if-match', 'if-modified-since', 'if-none-match', 'if-range', 'if-unmodified-since'],
  ...['baggage', 'b3', 'traceparent', 'tracestate', 'x-correlation-id', 'x-request-id'],
  ...['idempotency-key', 'signature', 'signature-input', 'x-idempotency-key'],
])

/**
 * Headers that make widespread servers use another method or path than the request line has. They
 * are refused even where other headers outside a policy only cause a warning.
 */
const OVERRIDING_HEADERS: ReadonlySet<string> = new Set([
  ...['x-http-method', 'x-http-method-override', 'x-method-override'],
  ...['x-original-url', 'x-override-url', 'x-rewrite-url'],
])

/** The form in which names of headers are compared. Some servers read `_` as `-`. */
function headerForm(name: string): string {
  return name.toLowerCase().replaceAll('_', '-')
}

/*
 * The plaintext of a secret with a policy has four parts. They are 4 magic bytes, the length of the
 * policy (2 bytes), the policy as JSON, and the value. The first magic byte never occurs in UTF-8
 * text. The encryption authenticates all parts, and only an enclave can decrypt them. A plaintext
 * without the magic bytes is only a value, as in vaults of the reference.
 */
const MAGIC: readonly number[] = [0xff, 0x53, 0x50, 1]
const HEAD = MAGIC.length + 2

const HOST = /^(\.?)((?:[a-z0-9_-]+\.)*[a-z0-9_-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/

/**
 * Checks a policy, and returns it in its normal form. `isPublicSuffix` tells whether anybody can
 * have a host below a name. Pass it when a secret is stored. A stored policy is read without it.
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
    headers: optional(listOf(checkHeader)),
    customRoots: optional(checkBoolean),
  } satisfies Schema<SecretPolicy>
  const checked = readOptions(field, checkObject(field, given), rules, `${field}.`)
  const { customRoots, ...policy } = checked
  return customRoots === true ? { ...policy, customRoots } : policy
}

/** Makes the option rule for a list with at least one entry. */
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

function checkHeader(field: string, given: string): string {
  const name = given.toLowerCase()
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))
    throw new ValidationError(`${field} must be the name of a header, as x-trace-id`)
  return name
}

/**
 * Tells whether a value has the shape of a policy, so that it can be shown. An old policy may break
 * newer rules.
 */
export function isUse(value: unknown): value is SecretUse {
  if (value === 'anywhere') return true
  if (typeof value !== 'object' || value === null) return false
  const policy = value as SecretPolicy
  const { hosts, methods = [], paths = [], in: places = [], headers = [], customRoots } = policy
  const isList = (list: unknown): boolean =>
    Array.isArray(list) && list.every(each => /^[!-~]+$/.test(String(each)))
  return [hosts, methods, paths, places, headers].every(isList) && (customRoots ?? true) === true
}

/** Joins a policy and a value to the bytes to encrypt. */
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
  /** The policy. Absent if the secret was stored without one. */
  readonly use?: SecretUse
  /** The value, as a view of the given bytes. */
  readonly value: Uint8Array
}

/**
 * Splits the decrypted bytes of a secret into policy and value. Throws VaultError if the policy
 * can't be read.
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
    // No cause is set, because an error of JSON.parse would show the policy.
    const why = thrown instanceof ValidationError ? `: ${thrown.message}` : ''
    throw new VaultError(`it has a policy that this version can not read${why}`)
  }
}

/**
 * Returns the rule that forbids a secret to go to a target. Returns undefined if the secret may go
 * there.
 */
export function findViolation(use: SecretUse, target: SecretTarget): string | undefined {
  if (use === 'anywhere') return undefined
  const { protocol, hostname, port, pathname } = new URL(target.url)
  const actual = { hostname: hostname.toLowerCase(), port: port === '' ? '443' : port }
  const { hosts, methods, paths, in: places, customRoots = false } = use
  if (protocol !== 'https:') return 'a secret with a policy goes out over https alone'
  if (!hosts.some(host => isHost(host, actual))) return 'its policy does not name this host'
  if (methods !== undefined && !methods.includes(target.method.toUpperCase()))
    return `its policy does not name the method ${target.method}`
  if (paths !== undefined) {
    const path = readPath(pathname)
    if (path === undefined) return 'its policy names paths, and this one can be read in two ways'
    if (!paths.some(named => isPath(named, path))) return 'its policy does not name this path'
  }
  const [header] = unnamedHeaders(use, target.headers ?? [])
  if (header !== undefined) return `its policy does not name the header ${header}`
  if (target.hasCustomRoots && !customRoots)
    return 'its policy does not allow customRootCaCertPem, with which others could be this host'
  const { place } = target
  if (places === undefined || place === undefined) return undefined
  const isNamed = places.includes(place) || (place !== 'body' && places.includes('header'))
  return isNamed ? undefined : `its policy does not name the place ${place}`
}

/**
 * Lists the headers of a request that a policy does not allow, in the order of the request. Some
 * servers read another method, path or host from a header than the request line has. Nobody knows
 * all these headers, so the policy names the allowed ones.
 */
export function unnamedHeaders(use: SecretUse, headers: readonly string[]): readonly string[] {
  if (use === 'anywhere') return []
  const { methods, paths, in: places = [], headers: named } = use
  if (methods === undefined && paths === undefined && named === undefined) return []
  const inHeaders = places.flatMap(each => (each.startsWith('header:') ? [each.slice(7)] : []))
  const allowed = new Set([...(named ?? []), ...inHeaders].map(headerForm))
  return headers.filter(each => {
    const form = headerForm(each)
    return !COMMON_HEADERS.has(form) && !allowed.has(form)
  })
}

/** Tells whether widespread servers read another method or path from a header. */
export function isOverridingHeader(header: string): boolean {
  return OVERRIDING_HEADERS.has(headerForm(header))
}

function isHost(named: string, { hostname, port }: { hostname: string; port: string }): boolean {
  const [, dot, name = '', onPort] = HOST.exec(named) ?? []
  if (onPort !== undefined && Number(onPort) !== Number(port)) return false
  return dot === '.' ? hostname.endsWith(`.${name}`) : hostname === name
}

/**
 * Matches a path that every server reads in the same way. A semicolon is not allowed, because it
 * starts parameters for some servers and not for others.
 */
const PATH = /^\/(?:[A-Za-z0-9\-._~!$&'()*+,=:@/]|%[0-9A-Fa-f]{2})*$/
/**
 * Matches characters that may be percent-encoded. Some servers decode a path early or twice. So no
 * character may decode to a separator, a dot or another encoding.
 */
const ENCODED = /^[ !$&'()*+,=:@\-_~\p{L}\p{Nd}]*$/u

/**
 * Decodes a path. Returns undefined if servers may read the path in different ways, because they
 * decode, collapse and resolve it at different times.
 */
function readPath(path: string): string | undefined {
  if (!PATH.test(path)) return undefined
  try {
    for (const [encoded] of path.matchAll(/(?:%[0-9A-Fa-f]{2})+/g))
      if (!ENCODED.test(decodeURIComponent(encoded))) return undefined
    const text = decodeURIComponent(path)
    const [, ...segments] = text.split('/')
    // Some file systems drop dots and spaces at the end of a name, so they read `.. ` as `..`.
    const isPlain = segments.every(
      (each, at) => !/[. ]$/.test(each) && (each !== '' || at === segments.length - 1),
    )
    return isPlain ? text : undefined
  } catch {
    return undefined
  }
}

/**
 * Reads a path of a policy. Returns its text, and whether it stands for every path with this
 * prefix.
 */
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
