import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { checkOptions, type Log, type OptionNames, ValidationError } from 'sluice/core'
import { checkObject, HTTPError, openChangingFile, parseJSON } from 'sluice/internal'

/** A token of a gateway. The gateway does not know the token itself, only its hash. */
export interface GatewayToken {
  /** The SHA-256 of the token: 64 hexadecimal digits. */
  readonly sha256: string
  /** When the token expires, such as `2027-01-31T00:00:00Z`. @default never */
  readonly expires?: string
}

const names: OptionNames<GatewayToken> = { sha256: true, expires: true }

/** The tokens of a gateway, by the names of their holders. */
export interface GatewayTokens {
  readonly [name: string]: GatewayToken
}

interface Entry {
  readonly digest: Buffer
  /** When the token expires, in Unix milliseconds. */
  readonly expires: number
}

/** The tokens that a gateway accepts at one moment. */
export interface TokenList {
  /**
   * The name of the holder whose token has this hash. Undefined if no token has this hash, or if
   * the token has expired.
   */
  holderOf(digest: Uint8Array): string | undefined
}

/**
 * Returns a function that returns the current tokens, from an object or from a JSON file. The file
 * is read again when it has changed.
 */
export function openTokens(given: GatewayTokens | string, log: Log): () => TokenList {
  if (typeof given !== 'string') {
    const list = listOf(checkTokens('tokens', given))
    return () => list
  }
  const file = openChangingFile(given, {
    entries: 'tokens',
    log,
    parse: text => checkTokens(given, parseJSON<GatewayTokens>(given, text)),
  })
  return () => listOf(file.read())
}

function listOf(entries: ReadonlyMap<string, Entry>): TokenList {
  return {
    holderOf(digest) {
      let holder: string | undefined
      // Compares every token, so that the time taken does not reveal which token matched.
      for (const [name, entry] of entries)
        if (timingSafeEqual(entry.digest, digest) && entry.expires > Date.now()) holder = name
      return holder
    },
  }
}

function checkTokens(field: string, given: GatewayTokens): ReadonlyMap<string, Entry> {
  const entries = new Map<string, Entry>()
  for (const [name, token] of Object.entries(checkObject(field, given))) {
    if (!/^[\w.@-]{1,64}$/.test(name))
      throw new ValidationError(
        `${field}: each name must be 1 to 64 letters, digits, _, ., @ and -`,
      )
    const entry = `${field}.${name}`
    const { sha256, expires } = checkOptions(entry, checkObject(entry, token), names)
    // The error does not show the value, because the value may be the token itself.
    if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256))
      throw new ValidationError(
        `${entry}.sha256 must be 64 hexadecimal digits: the hash of the token, and not the token`,
      )
    entries.set(name, {
      digest: Buffer.from(sha256, 'hex'),
      expires: checkExpiry(`${entry}.expires`, expires),
    })
  }
  return entries
}

function checkExpiry(field: string, value: unknown): number {
  if (value === undefined) return Number.POSITIVE_INFINITY
  const isDate = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)
  const time = isDate ? Date.parse(value) : Number.NaN
  if (Number.isNaN(time))
    throw new ValidationError(`${field} must be a time such as 2027-01-31T00:00:00Z`)
  return time
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

/** The holder of a request's token. */
export interface Holder {
  readonly name: string
  readonly digest: Uint8Array
}

/** Finds the holder of a request's token. Throws HTTPError if the request has no valid token. */
export function authorize(request: IncomingMessage, tokens: TokenList): Holder {
  const token = tokenOf(request)
  if (token === undefined)
    throw new HTTPError(401, 'a token is needed', undefined, { 'www-authenticate': 'Bearer' })
  const digest = createHash('sha256').update(token).digest()
  const name = tokens.holderOf(digest)
  if (name === undefined)
    throw new HTTPError(401, 'the token is unknown, or has expired', undefined, {
      'www-authenticate': 'Bearer error="invalid_token"',
    })
  return { name, digest }
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const { authorization, 'sec-websocket-protocol': protocols = '' } = headers
  if (authorization !== undefined) return /^Bearer +(\S+)$/i.exec(authorization)?.[1]
  const protocol = protocols.split(',').find(each => each.trim().startsWith(TOKEN_PROTOCOL))
  if (protocol === undefined) return undefined
  return Buffer.from(protocol.trim().slice(TOKEN_PROTOCOL.length), 'base64url').toString()
}
