import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { isIP } from 'node:net'
import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import {
  checkText,
  DataStreamsError,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import {
  checkObject,
  createHttp,
  foreignCause,
  networkReason,
  openChangingFile,
  parseJSON,
} from 'sluice/internal'
import type { HolderSource, NamedEntry } from './authorize.js'
import { type CheckedEntry, entitlementsSchema } from './holders.js'

/** The public keys of an issuer: a JWK Set (RFC 7517). */
export interface PublicKeySet {
  /** The keys, each as a JWK. */
  readonly keys: readonly object[]
}

/**
 * The tokens of an issuer that the gateway accepts: JWTs, which it verifies itself. What a holder
 * may do is in a claim of its token.
 */
export interface GatewayJWT {
  /**
   * The public keys of the issuer: the URL of its JWK Set (https, or http on loopback), the path of
   * a JSON file, which may be changed while the gateway runs, or the keys themselves. Needed unless
   * there is `publicKey`.
   */
  readonly jwks?: string | PublicKeySet
  /** The only public key of the issuer, in PEM. Needed unless there is `jwks`. */
  readonly publicKey?: string
  /** The issuer. A token must name it in `iss`. */
  readonly issuer: string
  /** The audience that stands for the gateway. A token must name it in `aud`. */
  readonly audience: string
  /**
   * The algorithms of signatures that are accepted. Algorithms with a shared secret are not among
   * them. @default all of `JWTAlgorithm`
   */
  readonly algorithms?: readonly JWTAlgorithm[]
  /** The claim with the entitlements of the holder. @default 'sluice' */
  readonly claim?: string
  /**
   * How many seconds the clocks of the issuer and the gateway may differ. A token is accepted for
   * so long after `exp` and before `nbf`. @default 5
   */
  readonly clockTolerance?: number
}

/**
 * An algorithm of signatures with a public key. There is none with a shared secret: a gateway is
 * exposed to pages, and whoever took its secret could make tokens.
 */
export type JWTAlgorithm =
  | 'RS256'
  | 'RS384'
  | 'RS512'
  | 'PS256'
  | 'PS384'
  | 'PS512'
  | 'ES256'
  | 'ES384'
  | 'ES512'
  | 'EdDSA'
  | 'Ed25519'

const ALGORITHMS: readonly JWTAlgorithm[] = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
  ...(['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const),
]

/** How many characters a JWT may have. */
const MAX_TOKEN = 8192
/** How many characters a subject (`sub`) may have. */
const MAX_SUBJECT = 255
/** How many characters of a reason a log line shows. */
const MAX_REASON = 200
/** How many keys an issuer may have. */
const MAX_KEYS = 100
/** How many bytes a JWK Set may have. */
const MAX_KEYS_BYTES = 262_144
/**
 * For how many JWTs the answer is remembered. They are fewer than those of `authorize`, because a
 * JWT is long and is verified without a question to anybody.
 */
const MAX_HOLDERS = 10_000
/** How many JWTs may be verified at once. */
const LOOKUPS_AT_ONCE = 1024
/** Milliseconds for the answer with a JWK Set: fewer than a lookup may take. */
const KEYS_TIMEOUT = 4000
/** Milliseconds after which a JWK Set is fetched again before it is used. */
const KEYS_LIFETIME = 600_000
/** Milliseconds between two fetches because of an unknown key. */
const KEYS_COOLDOWN = 5000
/** Milliseconds after a failed fetch in which there is no other one. */
const FAILURE_COOLDOWN = 1000

type Jose = typeof import('jose')

const schema = {
  jwks: optional(checkKeys),
  publicKey: optional(checkText),
  issuer: checkText,
  audience: checkText,
  algorithms: withDefault(ALGORITHMS, checkAlgorithms),
  claim: withDefault('sluice', checkText),
  clockTolerance: withDefault(5, number({ min: 0, max: 300 })),
} satisfies Schema<GatewayJWT>

/** The checked option `jwt`. */
export interface JWTSettings
  extends Required<Omit<GatewayJWT, 'jwks' | 'publicKey'>>,
    Pick<GatewayJWT, 'jwks' | 'publicKey'> {}

/** Checks the option `jwt`. */
export function checkJWT(field: string, value: unknown): JWTSettings {
  const given = checkObject(field, value as GatewayJWT)
  const settings = readOptions(field, given, schema, `${field}.`) as JWTSettings
  if ((settings.jwks === undefined) === (settings.publicKey === undefined))
    throw new ValidationError(`${field}.jwks or ${field}.publicKey must be given, and not both`)
  return settings
}

function checkKeys(field: string, value: unknown): string | PublicKeySet {
  if (typeof value !== 'string') return checkKeySet(field, value)
  const text = checkText(field, value)
  if (!isURL(text)) return text
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw new ValidationError(`${field} must be a URL or the path of a file`)
  if (url.username !== '' || url.password !== '')
    throw new ValidationError(`${field} must not hold a user name or password`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw new ValidationError(
      `${field} must begin with https://: whoever changes the keys on their way can make tokens`,
    )
  return text
}

function isURL(text: string): boolean {
  return /^https?:\/\//i.test(text)
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIP(host) === 4 && host.startsWith('127.'))
}

/** Checks a JWK Set. An error names no part of a key, because it may be a private one. */
function checkKeySet(field: string, value: unknown): PublicKeySet {
  const { keys } = checkObject(field, value as PublicKeySet)
  if (!Array.isArray(keys)) throw new ValidationError(`${field}.keys must be a list of keys`)
  if (keys.length > MAX_KEYS)
    throw new ValidationError(`${field}.keys must be at most ${MAX_KEYS}, not ${keys.length}`)
  for (const [at, key] of keys.entries()) {
    const { d, k } = checkObject(`${field}.keys[${at}]`, key) as JsonWebKey
    if (d !== undefined || k !== undefined)
      throw new ValidationError(`${field}.keys[${at}] must be a public key: it has a secret part`)
  }
  return { keys }
}

function checkAlgorithms(field: string, value: unknown): readonly JWTAlgorithm[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new ValidationError(`${field} must be a list of algorithms`)
  for (const [at, algorithm] of value.entries())
    if (!ALGORITHMS.includes(algorithm))
      throw new ValidationError(`${field}[${at}] must be one of ${ALGORITHMS.join(', ')}`)
  return value
}

/** Creates the source of the holders that JWTs name. */
export async function jwtSource(settings: JWTSettings, log: Log): Promise<HolderSource> {
  const jose = await loadJose()
  const findKey = findKeyOf(jose, settings, log)
  const { issuer, audience, clockTolerance } = settings
  const options = {
    ...{ issuer, audience, clockTolerance, algorithms: [...settings.algorithms] },
    requiredClaims: ['exp', 'sub'],
  }
  return {
    option: 'jwt',
    maxHolders: MAX_HOLDERS,
    lookupsAtOnce: LOOKUPS_AT_ONCE,
    async find(token) {
      try {
        if (token.length > MAX_TOKEN) throw new Refusal('too long')
        const { payload } = await jose.jwtVerify(token, findKey, options)
        return readClaims(payload, settings)
      } catch (thrown) {
        const reason = refusalOf(thrown)
        if (reason === undefined) throw thrown
        log.warn?.(`a JWT was refused: ${reason}`)
        return undefined
      }
    },
  }
}

async function loadJose(): Promise<Jose> {
  try {
    return await import('jose')
  } catch (thrown) {
    const message = 'the package jose could not be loaded: npm install jose@6'
    throw new ValidationError(message, { cause: foreignCause(thrown) })
  }
}

/** The reason why a JWT is not valid. */
class Refusal extends Error {}

/** The reasons by the codes of jose. Its messages are not logged: they may quote the token. */
const reasons: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'expired',
  ERR_JWT_INVALID: 'malformed',
  ERR_JWS_INVALID: 'malformed',
  ERR_JOSE_ALG_NOT_ALLOWED: 'algorithm not allowed',
  ERR_JOSE_NOT_SUPPORTED: 'not supported',
  ERR_JWKS_NO_MATCHING_KEY: 'unknown key',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'no kid, and several keys',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'wrong signature',
}

/** The reasons by the claim that jose did not accept. */
const claimReasons: Readonly<Record<string, string>> = {
  iss: 'wrong issuer',
  aud: 'wrong audience',
  nbf: 'not valid yet',
  exp: 'no valid exp',
  sub: 'no sub',
}

/** Why a JWT is not valid; undefined if another failure was thrown. */
function refusalOf(thrown: unknown): string | undefined {
  if (thrown instanceof Refusal) return thrown.message
  const { code, claim } = (thrown ?? {}) as { readonly code?: string; readonly claim?: string }
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED') return claimReasons[claim ?? ''] ?? 'wrong claim'
  return reasons[code ?? '']
}

const { expires: _, ...claimSchema } = entitlementsSchema

/** Reads the claims of a JWT whose signature is right. Throws Refusal. */
function readClaims(payload: JWTPayload, { claim, clockTolerance }: JWTSettings): NamedEntry {
  const { sub, exp = 0, [claim]: entitlements = {} } = payload
  if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT)
    throw new Refusal(`sub must have 1 to ${MAX_SUBJECT} characters`)
  return {
    ...readEntitlements(claim, entitlements),
    name: nameOf(sub),
    expires: 1000 * (exp + clockTolerance),
  }
}

function readEntitlements(claim: string, value: unknown): CheckedEntry {
  try {
    return readOptions(claim, checkObject(claim, value as object), claimSchema, `${claim}.`)
  } catch (thrown) {
    if (!(thrown instanceof ValidationError)) throw thrown
    // It may quote the claim, which is the issuer's and may have any characters.
    throw new Refusal(thrown.message.replace(/[^ -~]/g, '?').slice(0, MAX_REASON))
  }
}

/**
 * The holder's name. It has a prefix, so that no subject has the name of a holder of the file.
 * Characters that a name can't have are escaped, so that two subjects don't share one.
 */
function nameOf(subject: string): string {
  try {
    return `jwt:${subject.replace(/[^\w.@|:-]+/g, encodeURIComponent)}`
  } catch {
    throw new Refusal('sub is not Unicode')
  }
}

function findKeyOf(jose: Jose, { jwks, publicKey }: JWTSettings, log: Log): JWTVerifyGetKey {
  if (publicKey !== undefined) {
    const find = jose.createLocalJWKSet({ keys: [jwkOf(publicKey)] })
    // The key has no id, so it is the key of every id.
    return ({ alg }) => find({ alg })
  }
  if (typeof jwks !== 'string') return jose.createLocalJWKSet(jwks as never)
  if (isURL(jwks)) return findKeyAt(jose, new URL(jwks))
  const file = openChangingFile(jwks, {
    entries: 'keys',
    maxBytes: MAX_KEYS_BYTES,
    log,
    parse(text) {
      const { keys } = checkKeySet(jwks, parseJSON(jwks, text))
      return { find: jose.createLocalJWKSet({ keys } as never), size: keys.length }
    },
  })
  return (header, token) => file.read().find(header, token)
}

function jwkOf(publicKey: string): JsonWebKey {
  const rule = 'jwt.publicKey must be a public key in PEM'
  // A private key would be accepted too, and has no place here.
  if (!/-----BEGIN (RSA )?PUBLIC KEY-----/.test(publicKey)) throw new ValidationError(rule)
  try {
    return createPublicKey(publicKey).export({ format: 'jwk' })
  } catch {
    throw new ValidationError(rule)
  }
}

/** Finds keys in the JWK Set at a URL. It is fetched when it is first needed. */
function findKeyAt(jose: Jose, url: URL): JWTVerifyGetKey {
  const http = createHttp()
  let failure: Error | undefined
  let failedAt = Number.NEGATIVE_INFINITY

  async function fetchKeys(
    _url: string,
    { headers, signal }: { readonly headers: Headers; readonly signal: AbortSignal },
  ): Promise<Response> {
    if (failure !== undefined && performance.now() - failedAt < FAILURE_COOLDOWN) throw failure
    try {
      const request = { method: 'GET', url: url.href, headers, signal }
      const { status, body } = await http(request, MAX_KEYS_BYTES)
      if (status !== 200) throw new Error(`the status is ${status}`)
      const { keys } = checkKeySet(
        'the answer',
        parseJSON('the answer', new TextDecoder().decode(body)),
      )
      return Response.json({ keys })
    } catch (thrown) {
      const reason = signal.aborted ? `no answer within ${KEYS_TIMEOUT} ms` : networkReason(thrown)
      failure = new DataStreamsError(`no keys from ${url.origin}${url.pathname}: ${reason}`)
      failedAt = performance.now()
      throw failure
    }
  }

  return jose.createRemoteJWKSet(url, {
    timeoutDuration: KEYS_TIMEOUT,
    cooldownDuration: KEYS_COOLDOWN,
    cacheMaxAge: KEYS_LIFETIME,
    [jose.customFetch]: fetchKeys,
  })
}
