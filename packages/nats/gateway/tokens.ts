import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { emitWarning } from 'node:process'
import { BoundedMap, type Log, readOptions, ValidationError } from 'sluice/core'
import {
  type ChangingFile,
  checkObject,
  HTTPError,
  networkOf,
  openChangingFile,
  parseJSON,
} from 'sluice/internal'
import { FoundHolders, type HolderSource } from './authorize.js'
import {
  checkHolderName,
  type Entitlements,
  entitlementsSchema,
  type Holder,
  holderOf,
} from './holders.js'

/** A token of a gateway. The gateway does not know the token itself, only its hash. */
export interface GatewayToken extends Entitlements {
  /** The SHA-256 of the token: 64 hexadecimal digits. */
  readonly sha256: string
  /** When the token expires, such as `2027-01-31T00:00:00Z`. @default never */
  readonly expires?: string
}

/** The tokens of a gateway, by the names of their holders. */
export interface GatewayTokens {
  readonly [name: string]: GatewayToken
}

/** How a gateway finds the holders of tokens. */
export interface TokenSources {
  readonly tokens?: GatewayTokens | string | undefined
  /** For tokens in the form of a JWT. */
  readonly jwt?: HolderSource | undefined
  /** For all other tokens. */
  readonly authorize?: HolderSource | undefined
  readonly authorizedFor: number
}

/**
 * The most bytes that a file of tokens may have. A token takes about 130 bytes, and 70 more for
 * each feed that it names.
 */
const MAX_FILE = 16_777_216

/** How many addresses that have brought a valid token are remembered. */
const MAX_ADDRESSES = 1024

/** Holders by the SHA-256 of their tokens, in hexadecimal digits. */
type HoldersByDigest = ReadonlyMap<string, Holder>

/** The form of a JWT: three parts in base64url. */
const JWT_FORM = /^[\w-]+\.[\w-]+\.[\w-]*$/

/**
 * Finds the holders of tokens: in an object or a file, and then by `jwt` if the token has the form
 * of a JWT, or else by the callback `authorize`.
 */
export class Tokens {
  readonly #file: ChangingFile<HoldersByDigest> | undefined
  readonly #jwts: FoundHolders | undefined
  readonly #authorized: FoundHolders | undefined
  #known: HoldersByDigest
  /** The addresses that have brought a valid token, the latest last. */
  readonly #addresses = new BoundedMap<string, true>(MAX_ADDRESSES)

  constructor({ tokens = {}, jwt, authorize, authorizedFor }: TokenSources, log: Log) {
    // Someone must learn that the file was refused, because removed tokens stay valid then.
    const error = (message: string): void =>
      log.error === undefined ? emitWarning(message) : void log.error(message)
    if (typeof tokens === 'string') {
      this.#file = openChangingFile(tokens, {
        entries: 'tokens',
        maxBytes: MAX_FILE,
        log: { info: message => log.info?.(message), error },
        parse: text => checkTokens(tokens, parseJSON<GatewayTokens>(tokens, text)),
      })
      this.#known = this.#file.read()
    } else this.#known = checkTokens('tokens', tokens)
    const find = (source: HolderSource | undefined): FoundHolders | undefined =>
      source && new FoundHolders(source, 1000 * authorizedFor, error)
    this.#jwts = find(jwt)
    this.#authorized = find(authorize)
  }

  /** How many tokens the object or the file has. */
  get size(): number {
    return this.#known.size
  }

  /** Why the file of tokens was refused when it was last read; undefined if it was not. */
  get refusal(): string | undefined {
    return this.#file?.refusal
  }

  /** Reads the file of tokens again if it has changed. */
  refresh(): void {
    if (this.#file !== undefined) this.#known = this.#file.read()
  }

  /**
   * Finds the holder of a request's token. Throws HTTPError if the request has no valid token, or
   * if `jwt` or `authorize` fails. A lookup by digest takes a time that says nothing about other
   * tokens.
   */
  async find(request: IncomingMessage): Promise<Holder> {
    const token = tokenOf(request)
    if (token === undefined)
      throw new HTTPError(401, 'a token is needed', undefined, { 'www-authenticate': 'Bearer' })
    const digest = createHash('sha256').update(token).digest('hex')
    const holder = this.#known.get(digest) ?? (await this.#lookUp(request, digest, token))
    if (holder === undefined || holder.expires <= Date.now())
      throw new HTTPError(401, 'the token is unknown, or has expired', undefined, {
        'www-authenticate': 'Bearer error="invalid_token"',
      })
    return holder
  }

  /**
   * What the holder of an open stream may do now; undefined if its token was removed or has
   * expired.
   */
  current(holder: Holder): Holder | undefined {
    const known = this.#known.get(holder.digest)
    const now = known ?? holder.current?.()
    return now !== undefined && now.expires > Date.now() ? now : undefined
  }

  /** Asks a source. The addresses of strangers take turns, so none can take all lookups. */
  async #lookUp(
    { socket }: IncomingMessage,
    digest: string,
    token: string,
  ): Promise<Holder | undefined> {
    const source = this.#sourceOf(token)
    if (source === undefined) return undefined
    const address = networkOf(socket.remoteAddress)
    const gone = new AbortController()
    const abort = (): void => gone.abort(new HTTPError(503, 'the client has hung up'))
    socket.once('close', abort)
    try {
      const isKnown = (): boolean => this.#addresses.has(address)
      const asker = { caller: () => undefined, address, isKnown, signal: gone.signal }
      const holder = await source.find(digest, token, asker)
      if (holder !== undefined) this.#addresses.set(address, true)
      return holder
    } finally {
      socket.off('close', abort)
    }
  }

  /** Without `jwt`, `authorize` gets JWTs too. */
  #sourceOf(token: string): FoundHolders | undefined {
    return this.#jwts !== undefined && JWT_FORM.test(token) ? this.#jwts : this.#authorized
  }
}

const tokenSchema = { ...entitlementsSchema, sha256: checkHash }

function checkTokens(field: string, given: GatewayTokens): HoldersByDigest {
  const holders = new Map<string, Holder>()
  for (const [name, token] of Object.entries(checkObject(field, given))) {
    checkHolderName(`${field}: each name`, name)
    const { sha256: digest, ...entry } = readToken(`${field}.${name}`, token)
    const other = holders.get(digest)
    if (other !== undefined)
      throw new ValidationError(
        `${field}.${name}.sha256 must not be the one of ${field}.${other.name}`,
      )
    holders.set(digest, holderOf(name, digest, entry))
  }
  return holders
}

function readToken(field: string, token: GatewayToken) {
  return readOptions(field, checkObject(field, token as object), tokenSchema, `${field}.`)
}

/** The error does not show the value, because the value may be the token itself. */
function checkHash(field: string, value: unknown): string {
  if (typeof value !== 'string' || !/^[0-9a-f]{64}$/i.test(value))
    throw new ValidationError(
      `${field} must be 64 hexadecimal digits: the hash of the token, and not the token`,
    )
  return value.toLowerCase()
}

/**
 * The subprotocol that a gateway accepts. A page offers it together with a second subprotocol,
 * which contains its token.
 */
export const SUBPROTOCOL = 'sluice'
/**
 * The prefix of the subprotocol that contains a page's token. A page can set no other header of a
 * WebSocket; Kubernetes uses the same method. socket.web.ts has the client's side.
 */
const TOKEN_PROTOCOL = 'base64url.bearer.sluice.'

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const { authorization, 'sec-websocket-protocol': protocols = '' } = headers
  if (authorization !== undefined) return /^Bearer +(\S+)$/i.exec(authorization)?.[1]
  const protocol = protocols.split(',').find(each => each.trim().startsWith(TOKEN_PROTOCOL))
  if (protocol === undefined) return undefined
  return Buffer.from(protocol.trim().slice(TOKEN_PROTOCOL.length), 'base64url').toString()
}
