import dns, { type LookupAddress, Resolver } from 'node:dns'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { env, platform } from 'node:process'
import { abortable, createSemaphore, onAbort, type Semaphore } from 'sluice/core'

/*
 * Finds the addresses of a host. Callers of an enclave do not trust each other, so a name server
 * that never answers must not delay other callers. `dns.lookup` runs on the few threads that all
 * callers share, and nothing ends it early. Here each look-up has its own `dns.Resolver`, which
 * holds no thread, and ends as soon as its request ends.
 *
 * A `dns.Resolver` asks name servers only. So the hosts file, `localhost` and the search list of
 * /etc/resolv.conf are read here. Other sources of the platform, such as mDNS and NIS, are not
 * asked.
 */

/** How many look-ups of one caller run at once. The caller's other look-ups wait for them. */
const AT_ONCE = 16
/** Milliseconds after which any look-up ends. */
const LIMIT = 20_000
/** Milliseconds before a question is repeated for the first time, and how often it is asked. */
const PATIENCE = { timeout: 1500, tries: 3 } as const
/** The most addresses of a host. Each may be tried, and an answer has room for thousands. */
const MAX_ADDRESSES = 32
/** The most domains of the search list, and the most dots that `ndots` may ask for. */
const [MAX_DOMAINS, MAX_NDOTS] = [6, 15] as const
/** How many bytes are read of a file. */
const MAX_FILE_BYTES = 1_048_576

const HOSTS_FILE =
  platform === 'win32'
    ? `${env.SystemRoot ?? 'C:\\Windows'}\\System32\\drivers\\etc\\hosts`
    : '/etc/hosts'

/** The name servers of the process at the start. If they change, the program has changed them. */
const FIRST_SERVERS = String(dns.getServers())

/** A question for the addresses of a host. */
export interface LookUp {
  readonly host: string
  /** The look-ups of one caller share its turns. */
  readonly caller: string
  readonly signal: AbortSignal
}

/** The look-ups of a caller. */
interface Turns {
  readonly semaphore: Semaphore
  count: number
}

const turnsOf = new Map<string, Turns>()
const never = new AbortController().signal

/**
 * Finds the addresses of a host that is no address itself: those of the hosts file, or else those
 * that the name servers give. IPv4 addresses come first, unless `--dns-result-order=ipv6first` is
 * set. Rejects with an error that has the code of the failure, or with the signal's reason.
 */
export async function lookUp({ host, caller, signal }: LookUp): Promise<readonly LookupAddress[]> {
  const known = findKnown(host.replace(/\.$/, '').toLowerCase())
  if (known !== undefined) return inOrder(known)
  const turns = turnsOf.get(caller) ?? { semaphore: createSemaphore(AT_ONCE, never), count: 0 }
  turnsOf.set(caller, turns)
  turns.count++
  const running = turns.semaphore
    .run(LIMIT, () => askServers(candidatesOf(host, readSearch()), signal))
    .finally(() => {
      turns.count--
      if (turns.count === 0) turnsOf.delete(caller)
    })
  return inOrder(await abortable(running, signal))
}

/** The addresses that a host has without a name server; an empty list if it can't have any. */
function findKnown(name: string): readonly string[] | undefined {
  const found = readHosts().get(name)
  if (found !== undefined) return found
  // RFC 6761, sections 6.3 and 6.4: no name server is asked for these names.
  if (/(^|\.)localhost$/.test(name)) return ['127.0.0.1', '::1']
  return /(^|\.)invalid$/.test(name) ? [] : undefined
}

/** Asks for one name after the other, until one has addresses. */
async function askServers(
  names: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  signal.throwIfAborted()
  const resolver = new Resolver(PATIENCE)
  const servers = dns.getServers()
  if (String(servers) !== FIRST_SERVERS) resolver.setServers(servers)
  const timer = setTimeout(() => resolver.cancel(), LIMIT)
  const forget = onAbort(signal, () => resolver.cancel())
  let failure = 'ENOTFOUND'
  try {
    for (const name of names) {
      const answers = await Promise.all([ask(resolver, name, 4), ask(resolver, name, 6)])
      signal.throwIfAborted()
      const found = answers.flatMap(answer => (typeof answer === 'string' ? [] : answer))
      if (found.length > 0) return found
      const codes = answers.filter(answer => typeof answer === 'string')
      const code = codes.find(each => !isAbsent(each))
      if (code === undefined) continue
      failure = code
      // Only a server that has answered can answer for the next name.
      if (code !== 'ESERVFAIL') break
    }
    throw failed(failure)
  } finally {
    clearTimeout(timer)
    forget()
  }
}

/** Asks for the addresses of one family. Resolves with them, or with the code of the failure. */
function ask(resolver: Resolver, name: string, family: 4 | 6): Promise<readonly string[] | string> {
  return new Promise(resolve => {
    const done = (error: NodeJS.ErrnoException | null, found: readonly string[]): void =>
      resolve(error === null ? found : (error.code ?? 'ENOTFOUND'))
    if (family === 4) resolver.resolve4(name, done)
    else resolver.resolve6(name, done)
  })
}

/** Tells whether a code says that the name does not exist, or has no addresses of the family. */
function isAbsent(code: string): boolean {
  return code === 'ENOTFOUND' || code === 'ENODATA' || code === 'EBADNAME'
}

function failed(code: string): Error {
  return Object.assign(new Error('the look-up failed'), { code })
}

function inOrder(addresses: readonly string[]): readonly LookupAddress[] {
  if (addresses.length === 0) throw failed('ENOTFOUND')
  // Node 20.0 lacks this function.
  const first = dns.getDefaultResultOrder?.() === 'ipv6first' ? 6 : 4
  return [...new Set(addresses)]
    .map(address => ({ address, family: isIP(address) }))
    .sort((a, b) => Number(b.family === first) - Number(a.family === first))
    .slice(0, MAX_ADDRESSES)
}

/** The search list of resolv.conf(5). */
export interface Search {
  readonly domains: readonly string[]
  /** A name with fewer dots is looked for in the domains first. */
  readonly ndots: number
}

/**
 * The names to ask for, one after the other. As in musl, a name with enough dots is only asked for
 * as it is.
 */
export function candidatesOf(host: string, { domains, ndots }: Search): readonly string[] {
  const dots = host.split('.').length - 1
  if (host.endsWith('.') || dots >= ndots) return [host]
  return [...domains.map(domain => `${host}.${domain}`), host]
}

/** Reads the search list of a resolv.conf(5). The last line of a kind counts. */
export function parseSearch(text: string): Search {
  let domains: readonly string[] = []
  let ndots = 1
  for (const [word, ...values] of linesOf(text, /[#;].*/)) {
    if (word === 'search' || word === 'domain')
      domains = values.map(withoutDot).filter(domain => domain !== '')
    for (const value of word === 'options' ? values : []) {
      const digits = /^ndots:(\d{1,9})$/.exec(value)?.[1]
      if (digits !== undefined) ndots = Math.min(Number(digits), MAX_NDOTS)
    }
  }
  return { domains: domains.slice(0, MAX_DOMAINS), ndots }
}

/**
 * Reads a hosts file: the addresses of each name. Leaves out addresses with a zone, because the
 * zone is one of this machine's interfaces.
 */
export function parseHosts(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>()
  for (const [address = '', ...names] of linesOf(text, /#.*/)) {
    if (isIP(address) === 0 || address.includes('%')) continue
    for (const name of names.map(each => withoutDot(each).toLowerCase())) {
      const addresses = hosts.get(name) ?? []
      addresses.push(address)
      hosts.set(name, addresses)
    }
  }
  return hosts
}

/** The words of each line that has any. */
function linesOf(text: string, comment: RegExp): readonly (readonly string[])[] {
  return text
    .split('\n')
    .map(line => line.replace(comment, '').trim())
    .filter(line => line !== '')
    .map(line => line.split(/\s+/))
}

function withoutDot(name: string): string {
  return name.replace(/\.$/, '')
}

/** Windows has its search list elsewhere, and no such file. */
const readSearch = readChanging('/etc/resolv.conf', parseSearch)
const readHosts = readChanging(HOSTS_FILE, parseHosts)

/**
 * Reads a file of the platform, and reads it again when it has changed. A file that can't be read
 * is empty.
 */
export function readChanging<Value>(file: string, parse: (text: string) => Value): () => Value {
  let stamp: string | undefined
  let value: Value
  return function read() {
    const now = stampOf(file)
    if (now !== stamp) value = parse(now === '' ? '' : readStart(file))
    stamp = now
    return value
  }
}

/** Identifies a file and its state. Empty if there is no file, or something else in its place. */
function stampOf(file: string): string {
  try {
    const stats = statSync(file, { bigint: true })
    const { ino, ctimeNs, mtimeNs, size } = stats
    return stats.isFile() ? `${ino} ${ctimeNs} ${mtimeNs} ${size}` : ''
  } catch {
    return ''
  }
}

/** Reads the whole lines at the start of a file. */
function readStart(file: string): string {
  const bytes = Buffer.alloc(MAX_FILE_BYTES)
  try {
    const opened = openSync(file, 'r')
    try {
      const size = readSync(opened, bytes, 0, MAX_FILE_BYTES, 0)
      const end = size < MAX_FILE_BYTES ? size : bytes.lastIndexOf('\n') + 1
      return bytes.toString('utf8', 0, end)
    } finally {
      closeSync(opened)
    }
  } catch {
    return ''
  }
}
