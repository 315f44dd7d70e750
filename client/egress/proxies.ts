import { ValidationError } from '../../core/errors.js'
import { checkText } from '../../core/options.js'
import { encodeBase64 } from '../../crypto/bytes.js'
import { TextEncoder } from '../../platform/globals.js'

/** The host and port to which a connection leads. */
export interface Target {
  /** A name or an address. An IPv6 address is without brackets. */
  readonly host: string
  readonly port: number
  /** True if the connection uses TLS. */
  readonly isSecure: boolean
}

/**
 * A proxy. A function returns the credentials, so that code that prints the proxy does not print
 * them.
 */
export interface ProxyServer extends Target {
  /** The URL without user name and password. */
  readonly url: string
  /** The value of the header `Proxy-Authorization`. */
  authorization(): string | undefined
}

/** Returns the proxy for a target; undefined if the connection needs no proxy. */
export type FindProxy = (target: Target) => ProxyServer | undefined

/** Returns the target of an http, https, ws or wss URL. */
export function targetOf({ protocol, hostname, port }: URL): Target {
  const isSecure = protocol === 'https:' || protocol === 'wss:'
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    isSecure,
  }
}

/**
 * Reads the option `proxy`. Returns undefined if the option is `'env'` and the environment names no
 * proxy.
 */
export function parseProxies(given: unknown): FindProxy | undefined {
  const text = checkText('proxy', given)
  if (text === 'env') return proxiesOf(globalThis.process?.env ?? {})
  const proxy = parseProxy('proxy', text)
  return () => proxy
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Finds the proxies that an environment names. If two variables differ only in case, the lower-case
 * variable wins, as in curl. A proxy that can't be used, such as a SOCKS proxy in ALL_PROXY, is an
 * error only for targets that need it.
 */
export function proxiesOf(env: Environment): FindProxy | undefined {
  function read(name: string): (() => ProxyServer) | undefined {
    const found = [name, name.toUpperCase()].find(each => env[each])
    if (found === undefined) return undefined
    const text = env[found] as string
    let proxy: ProxyServer | undefined
    return function parseOnce() {
      proxy ??= parseProxy(found, /^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`)
      return proxy
    }
  }
  const secure = read('https_proxy') ?? read('all_proxy')
  const plain = read('http_proxy') ?? read('all_proxy')
  if (secure === undefined && plain === undefined) return undefined
  const isExcepted = parseExceptions(env.no_proxy || env.NO_PROXY || '')
  return target => (isExcepted(target) ? undefined : (target.isSecure ? secure : plain)?.())
}

/**
 * Parses the URL of a proxy. No error message quotes the text, because even an invalid URL may hold
 * a password.
 */
function parseProxy(field: string, text: string): ProxyServer {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new ValidationError(`${field} must be a URL such as http://proxy.example:3128`)
  }
  const { protocol, host, pathname, search, hash } = url
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new ValidationError(`${field} must begin with http:// or https://`)
  if (pathname !== '/' || search !== '' || hash !== '')
    throw new ValidationError(`${field} must have no path, query or fragment`)
  const authorization = readCredentials(field, url)
  return { ...targetOf(url), url: `${protocol}//${host}`, authorization: () => authorization }
}

function readCredentials(field: string, { username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined
  try {
    const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
    return `Basic ${encodeBase64(new TextEncoder().encode(text))}`
  } catch {
    throw new ValidationError(`${field} must have percent signs in its password written as %25`)
  }
}

/**
 * Parses the rules of NO_PROXY. A name matches itself and its subdomains. An address matches only
 * itself. A rule such as `10.0.0.0/8` matches a range of addresses.
 */
export function parseExceptions(list: string): (target: Target) => boolean {
  const rules = list.split(/[\s,]+/).flatMap(entry => (entry === '' ? [] : [parseRule(entry)]))
  return target => rules.some(matches => matches(normalizeHost(target.host), target.port))
}

type Rule = (host: string, port: number) => boolean

function parseRule(entry: string): Rule {
  if (entry === '*') return () => true
  const [, range = '', bits = ''] = /^(\d+\.\d+\.\d+\.\d+)\/(\d+)$/.exec(entry) ?? []
  if (range !== '') return inRange(range, Number(bits))
  // An IPv6 address without brackets has colons, and no port.
  const [, bracketed, bare = entry, port] = /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
  const name = normalizeHost(bracketed ?? bare.replace(/^\*?\./, ''))
  return (host, at) =>
    (port === undefined || Number(port) === at) &&
    (name === '*' || host === name || (!isAddress(host) && host.endsWith(`.${name}`)))
}

function inRange(range: string, bits: number): Rule {
  const keep = 2 ** (32 - Math.min(bits, 32))
  const prefixOf = (address: string): number => Math.floor(numberOf(address) / keep)
  return host => isIPv4(host) && prefixOf(host) === prefixOf(range)
}

const isIPv4 = (host: string): boolean => /^\d+\.\d+\.\d+\.\d+$/.test(host)
const isAddress = (host: string): boolean => isIPv4(host) || host.includes(':')
const numberOf = (address: string): number =>
  address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)

/**
 * Returns a host in lower case, without a dot at the end. An IPv6 address gets its shortest form.
 */
function normalizeHost(host: string): string {
  const lower = host.toLowerCase().replace(/\.$/, '')
  if (!lower.includes(':')) return lower
  try {
    return new URL(`http://[${lower}]`).hostname.slice(1, -1)
  } catch {
    return lower
  }
}
