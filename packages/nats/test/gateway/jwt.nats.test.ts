import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { hashOf, openRaw, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { SignJWT } from 'jose'
import type { Gateway, GatewayJWT, GatewayOptions } from '../../gateway/index.js'

const issuer = 'https://login.example/'
const audience = 'reports'
const latest = (index: number): string => `/api/v1/reports/latest?feedID=${feed(index)}`
const now = (): number => Math.floor(Date.now() / 1000)

/** A pair of keys of an issuer, and the JWK of the public one. */
function keysOf(kid: string, alg = 'ES256') {
  const { publicKey, privateKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { kid, alg, publicKey, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid } }
}
type Keys = ReturnType<typeof keysOf>

const [one, two] = [keysOf('one'), keysOf('two')]
const rsa = keysOf('rsa', 'RS256')
const edwards = keysOf('ed', 'EdDSA')

const claims = (more: object = {}): Record<string, unknown> => ({
  ...{ iss: issuer, aud: audience, sub: 'auth0|1', exp: now() + 300 },
  ...more,
})

/** A token of jose. */
const joseToken = ({ privateKey, alg, kid }: Keys, payload: object = {}): Promise<string> =>
  new SignJWT(claims(payload) as never).setProtectedHeader({ alg, kid }).sign(privateKey)

const encode = (value: object | string | Buffer): string =>
  Buffer.from(
    typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value),
  ).toString('base64url')

/** A token of RFC 7515 by node:crypto alone. */
function ownToken(keys: Keys, payload: object = {}, header: object = {}): string {
  const { alg, kid } = keys
  const signed = `${encode({ alg, kid, typ: 'JWT', ...header })}.${encode(claims(payload))}`
  return `${signed}.${encode(signatureOf(keys, signed))}`
}

function signatureOf({ alg, privateKey }: Keys, signed: string): Buffer {
  const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
  return signBytes(alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), key)
}

const hmacToken = (secret: string | Buffer, header: object, payload: object = {}): string => {
  const signed = `${encode(header)}.${encode(claims(payload))}`
  return `${signed}.${encode(createHmac('sha256', secret).update(signed).digest())}`
}

const pemOf = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }) as string

async function ask(gateway: Gateway, own: string, index = 1): Promise<string> {
  const headers = { authorization: `Bearer ${own}` }
  const answer = await fetch(`${gateway.url}${latest(index)}`, { headers })
  const { message } = (await answer.json()) as { readonly message?: string }
  return message === undefined ? String(answer.status) : `${answer.status} ${message}`
}

const REFUSED = '401 the token is unknown, or has expired'
const AWAY = '503 the token can’t be looked up now'

/** A server of a JWK Set, whose answer may be changed, and how often it was asked. */
async function startIssuer(answer: RequestListener) {
  const state = { answer, asked: 0, paths: [] as string[] }
  const server = createServer((request, response) => {
    state.asked++
    state.paths.push(request.url ?? '')
    state.answer(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys.json`
  return Object.assign(state, { url, server })
}

const answerKeys =
  (...keys: readonly Keys[]): RequestListener =>
  (_request, response) =>
    response.end(JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }))

describe('a gateway with jwt', () => {
  let world: LogWorld
  const lines: string[] = []
  const write = (line: string, facts?: object): void =>
    void lines.push(`${line} ${JSON.stringify(facts)}`)
  const log = { debug: write, info: write, warn: write, error: write }
  beforeEach(async () => {
    lines.length = 0
    world = await startWorld()
    const engine = await world.engine()
    const relay = await world.relay(engine)
    for (const index of [1, 2]) engine.publish(feed(index))
    await until(() => relay.getMetrics().stored === 2)
  })
  const start = (jwt: Partial<GatewayJWT>, more: Partial<GatewayOptions> = {}): Promise<Gateway> =>
    startGateway(world, { jwt: { issuer, audience, ...jwt }, tokens: {}, log, ...more })
  const refusals = (): readonly string[] =>
    lines.flatMap(line => /a JWT was refused: (.*) undefined/.exec(line)?.[1] ?? [])

  test('accepts what its issuer has signed, beside the file and the callback', async () => {
    const gateway = await start(
      { jwks: { keys: [one, rsa, edwards].map(({ jwk }) => jwk) } },
      {
        tokens: { dashboard: { sha256: hashOf(token) } },
        authorize: given => (given === 'opaque' ? { name: 'opaque' } : undefined),
      },
    )
    for (const keys of [one, rsa, edwards]) {
      expect(await ask(gateway, await joseToken(keys))).toBe('200')
      expect(await ask(gateway, ownToken(keys))).toBe('200')
    }
    expect(await ask(gateway, ownToken(one, { aud: ['other', audience] }))).toBe('200')
    expect(await ask(gateway, token)).toBe('200')
    expect(await ask(gateway, 'opaque')).toBe('200')
    expect(await ask(gateway, 'other')).toBe(REFUSED)
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`claim${at}`, at]))
    expect(await ask(gateway, ownToken(one, many))).toBe('200')
    // As a page hands it over.
    await openRaw(gateway, [feed(1)], { token: ownToken(one) })
    const inURL = await fetch(`${gateway.url}${latest(1)}&token=${ownToken(one)}`)
    expect(inURL.status).toBe(401)
  })

  test('refuses every other token with the same words, and logs the reason and no token', async () => {
    const gateway = await start({
      jwks: { keys: [one, rsa].map(({ jwk }) => jwk) },
      claim: 'https://reports.example/rights',
    })
    const signed = ownToken(one)
    const [head = '', , signature = ''] = signed.split('.')
    const rights = (value: unknown) => ({ 'https://reports.example/rights': value })
    const pem = pemOf(rsa.publicKey)
    const cases: readonly (readonly [string, string])[] = [
      [ownToken(one, { exp: now() - 10 }), 'expired'],
      [ownToken(one, { exp: undefined }), 'no valid exp'],
      [ownToken(one, { exp: '2099' }), 'no valid exp'],
      [ownToken(one, { nbf: now() + 60 }), 'not valid yet'],
      [ownToken(one, { aud: 'other' }), 'wrong audience'],
      [ownToken(one, { aud: undefined }), 'wrong audience'],
      [ownToken(one, { iss: 'https://login.example' }), 'wrong issuer'],
      [ownToken(one, { sub: undefined }), 'no sub'],
      [ownToken(one, { sub: 'a'.repeat(256) }), 'sub must have 1 to 255 characters'],
      [ownToken(one, { sub: '\ud800' }), 'sub is not Unicode'],
      [ownToken(two), 'unknown key'],
      [ownToken({ ...two, kid: 'one' }), 'wrong signature'],
      [ownToken(one, {}, { kid: '../../../../dev/null' }), 'unknown key'],
      [ownToken(one, {}, { kid: 'https://evil.example/keys' }), 'unknown key'],
      [ownToken(two, {}, { kid: undefined, jwk: two.jwk }), 'wrong signature'],
      [ownToken(two, {}, { jku: 'https://evil.example/keys' }), 'unknown key'],
      [ownToken(one, {}, { crit: ['exp'] }), 'not supported'],
      [`${encode({ alg: 'none' })}.${encode(claims())}.`, 'algorithm not allowed'],
      [`${encode({ alg: 'none' })}.${encode(claims())}.${signature}`, 'algorithm not allowed'],
      [`${encode({ alg: 'None', kid: 'one' })}.${encode(claims())}.AA`, 'algorithm not allowed'],
      // The public key as the secret of an HMAC.
      [hmacToken(pem, { alg: 'HS256', kid: 'rsa' }), 'algorithm not allowed'],
      [hmacToken(encode(JSON.stringify(rsa.jwk)), { alg: 'HS256' }), 'algorithm not allowed'],
      [ownToken(rsa, {}, { alg: 'ES256' }), 'unknown key'],
      [`${head}.${encode(claims({ sub: 'admin' }))}.${signature}`, 'wrong signature'],
      [`${head}.x.${signature}`, 'wrong signature'],
      [`x.${encode(claims())}.${signature}`, 'malformed'],
      [ownToken(one, { text: 'a'.repeat(8000) }), 'too long'],
      [ownToken(one, rights({ feedIDs: 'all' })), 'https://reports.example/rights.feedIDs must be'],
      [ownToken(one, rights({ connections: -1 })), 'https://reports.example/rights.connections'],
      [ownToken(one, rights({ 'a\nb': 1 })), "unknown option 'a?b'"],
      [ownToken(one, rights({ expires: '2099-01-01T00:00:00Z' })), "unknown option 'expires'"],
      [ownToken(one, rights('all')), 'https://reports.example/rights must be'],
      [ownToken(one, rights(null)), 'https://reports.example/rights must be'],
    ]
    for (const [given, reason] of cases) {
      const before = refusals().length
      expect([reason, await ask(gateway, given)]).toEqual([reason, REFUSED])
      expect(refusals().slice(before)).toEqual([expect.stringContaining(reason)])
    }
    const huge = ownToken(one, { text: 'a'.repeat(30_000) })
    const answer = await fetch(`${gateway.url}/health`, {
      headers: { authorization: `Bearer ${huge}` },
    })
    expect(answer.status).toBe(431)
    const words = lines.join('\n')
    for (const [given] of cases)
      for (const part of given.split('.').filter(({ length }) => length > 20))
        expect(words).not.toContain(part)
    expect(await ask(gateway, signed)).toBe('200')
  })

  test('lets holders do what their claim says, together over their tokens', async () => {
    const gateway = await start({ jwks: { keys: [one.jwk] }, clockTolerance: 0 })
    const rights = { feedIDs: [feed(1)], connections: 1, maxQueryAge: 60 }
    const first = ownToken(one, { sluice: rights, exp: now() + 3 })
    const second = ownToken(one, { sluice: rights })
    expect(await ask(gateway, first)).toBe('200')
    expect(await ask(gateway, first, 2)).toBe(`403 the token has no access to feed ${feed(2)}`)
    const stream = await openRaw(gateway, [feed(1)], { token: first })
    await expect(openRaw(gateway, [feed(1)], { token: second })).rejects.toThrow(
      '429 the token has 1 connections already',
    )
    const other = ownToken(one, { sub: 'other person', sluice: rights })
    const others = await openRaw(gateway, [feed(1)], { token: other })
    expect(await stream.closed).toBe('4401 the token was removed, or has expired')
    expect(await ask(gateway, first)).toBe(REFUSED)
    expect(others.socket.readyState).toBe(others.socket.OPEN)
    expect(lines.join('\n')).toContain('a connection of jwt:auth0|1 is closed')
    others.socket.terminate()
  })

  test('takes a public key in PEM, whatever the id of the key in the token', async () => {
    const gateway = await start({ publicKey: pemOf(rsa.publicKey) })
    expect(await ask(gateway, ownToken(rsa))).toBe('200')
    expect(await ask(gateway, ownToken(rsa, {}, { kid: 'any' }))).toBe('200')
    expect(await ask(gateway, ownToken(one))).toBe(REFUSED)
    const secret = pemOf(rsa.publicKey)
    expect(await ask(gateway, hmacToken(secret, { alg: 'HS256' }))).toBe(REFUSED)
    const narrow = await start({
      publicKey: pemOf(createPublicKey(rsa.privateKey)),
      algorithms: ['PS256'],
    })
    expect(await ask(narrow, ownToken(rsa))).toBe(REFUSED)
  })

  test('reads a file of keys again, and closes the streams of a key that is gone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
    closers.push(() => rmSync(folder, { recursive: true }))
    const jwks = join(folder, 'keys.json')
    const save = (...keys: readonly object[]) => writeFileSync(jwks, JSON.stringify({ keys }))
    save(one.jwk)
    const gateway = await start({ jwks }, { authorizedFor: 1 })
    const stream = await openRaw(gateway, [feed(1)], { token: ownToken(one) })
    expect(await ask(gateway, ownToken(two))).toBe(REFUSED)
    save(one.privateKey.export({ format: 'jwk' }))
    const refusal = 'must be a public key: it has a secret part'
    for (let at = 0; !lines.some(line => line.includes(refusal)); at++)
      expect(await ask(gateway, ownToken(two, { jti: at }))).toBe(REFUSED)
    expect(stream.socket.readyState).toBe(stream.socket.OPEN)
    save(two.jwk)
    expect(await stream.closed).toBe('4401 the token was removed, or has expired')
    expect(await ask(gateway, ownToken(two, { jti: 'new' }))).toBe('200')
    expect(await ask(gateway, ownToken(one, { jti: 'new' }))).toBe(REFUSED)
  }, 20_000)

  test('fetches the keys of its issuer, again for a new one, and not for each that is wrong', async () => {
    const keys = await startIssuer(answerKeys(one))
    const gateway = await start({ jwks: keys.url }, { authorizedFor: 1 })
    expect(keys.asked).toBe(0)
    const burst = Array.from({ length: 20 }, (_, at) => ask(gateway, ownToken(one, { jti: at })))
    expect(new Set(await Promise.all(burst))).toEqual(new Set(['200']))
    expect(keys.asked).toBe(1)
    keys.answer = answerKeys(one, two)
    let refused = 0
    while ((await ask(gateway, ownToken(two, { jti: refused }))) !== '200') refused++
    expect(refused).toBeGreaterThan(1)
    expect(keys.asked).toBe(2)
    for (let at = 0; at < 20; at++) {
      const kid = `/../${at}`
      expect(await ask(gateway, ownToken(two, {}, { kid }))).toBe(REFUSED)
    }
    expect(keys.asked).toBe(2)
    expect(new Set(keys.paths)).toEqual(new Set(['/keys.json']))
  }, 30_000)

  test('answers with 503 while the keys can’t be had, and asks for them once a second', async () => {
    const statuses: readonly (readonly [string, RequestListener, string])[] = [
      ['away', (request, _response) => request.socket.destroy(), 'other side closed'],
      ['an error', (_, response) => response.writeHead(500).end(), 'the status is 500'],
      [
        'a redirect',
        (_, response) => response.writeHead(302, { location: '/other' }).end(),
        'the status is 302',
      ],
      ['no JSON', (_, response) => response.end('<html>'), 'the answer is not JSON'],
      ['other JSON', (_, response) => response.end('{}'), 'the answer.keys must be a list'],
      [
        'huge',
        (_, response) => {
          const more = (): void => {
            while (response.write('a'.repeat(65_536)));
          }
          response.on('drain', more)
          more()
        },
        'longer than 262144 bytes',
      ],
    ]
    for (const [what, answer, reason] of statuses) {
      const keys = await startIssuer(answer)
      lines.length = 0
      const gateway = await start({ jwks: keys.url })
      for (let at = 0; at < 5; at++)
        expect([what, await ask(gateway, ownToken(one, { jti: at }))]).toEqual([what, AWAY])
      expect(keys.asked).toBe(1)
      expect(keys.paths).toEqual(['/keys.json'])
      expect(lines.find(line => line.startsWith('jwt failed'))).toContain(reason)
      keys.answer = answerKeys(one)
      while ((await ask(gateway, ownToken(one))) !== '200') await pause(100)
    }
  }, 30_000)

  test('waits four seconds for keys, and keeps the streams that it has', async () => {
    const keys = await startIssuer(answerKeys(one))
    const gateway = await start({ jwks: keys.url }, { authorizedFor: 1 })
    const stream = await openRaw(gateway, [feed(1)], { token: ownToken(one) })
    keys.answer = () => undefined
    const slow = await start({ jwks: keys.url })
    expect(await ask(slow, ownToken(one))).toBe(AWAY)
    expect(lines.join('\n')).toContain('no answer within 4000 ms')
    expect(stream.socket.readyState).toBe(stream.socket.OPEN)
    const health = await fetch(`${slow.url}/health`)
    expect(health.status).toBe(200)
  }, 20_000)

  test('names options that are wrong', async () => {
    const keys = { keys: [one.jwk] }
    const cases: readonly (readonly [object, string])[] = [
      [{}, 'jwt.jwks or jwt.publicKey must be given, and not both'],
      [{ jwks: keys, publicKey: 'a' }, 'jwt.jwks or jwt.publicKey must be given, and not both'],
      [{ jwks: 'http://login.example/keys' }, 'jwt.jwks must begin with https://'],
      [{ jwks: 'http://127.0.0.1.evil.example/' }, 'jwt.jwks must begin with https://'],
      [{ jwks: 'https://a:b@login.example/' }, 'jwt.jwks must not hold a user name or password'],
      [{ jwks: '/nowhere/keys.json' }, "/nowhere/keys.json can't be read: ENOENT"],
      [{ jwks: { keys: [{ kty: 'oct', k: 'abc' }] } }, 'jwt.jwks.keys[0] must be a public key'],
      [{ jwks: { keys: {} } }, 'jwt.jwks.keys must be a list of keys'],
      [{ publicKey: 'abc' }, 'jwt.publicKey must be a public key in PEM'],
      [
        { publicKey: one.privateKey.export({ type: 'pkcs8', format: 'pem' }) },
        'jwt.publicKey must be a public key in PEM',
      ],
      [{ jwks: keys, issuer: undefined }, 'jwt.issuer is required'],
      [{ jwks: keys, audience: '' }, 'jwt.audience must not be empty'],
      [{ jwks: keys, algorithms: ['HS256'] }, 'jwt.algorithms[0] must be one of RS256'],
      [{ jwks: keys, algorithms: ['none'] }, 'jwt.algorithms[0] must be one of RS256'],
      [{ jwks: keys, algorithms: [] }, 'jwt.algorithms must be a list of algorithms'],
      [{ jwks: keys, clockTolerance: 301 }, 'jwt.clockTolerance must be at most 300'],
    ]
    for (const [given, message] of cases)
      expect((await failureOf(start(given))).message).toContain(message)
  })
})
