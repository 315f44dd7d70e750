import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { keepLog } from '@sluice/test-support/plugins/confidential-http.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { type EnclavePlugin, readSecret } from 'sluice/plugins/confidential-http'
import { confidentialPreset } from 'sluice/presets/confidential'
import { createEnclave, type HTTPRequest } from '../../index.js'
import {
  ask,
  askRaw,
  enclaveOf,
  external,
  lineOf,
  OWNER,
  reply,
  server,
  vault,
} from '../support/enclave.js'
import { plant } from '../support/vault/plant.js'
import { putWithoutPolicy } from '../support/vault/put-without-policy.js'

/** Each is one of the secrets whose parts must never leave the enclave. */
const VALUE = 'sk-live-x9q7'
const here = { hosts: ['localhost', '127.0.0.1'], customRoots: true }
beforeAll(async () => {
  const put = (key: string, policy: Parameters<typeof vault.put>[2]): Promise<void> =>
    vault.put({ key }, VALUE, policy)
  await put('here', { policy: here })
  await put('elsewhere', { policy: { hosts: ['api.example.com'], customRoots: true } })
  await put('posted', { policy: { ...here, methods: ['POST'] } })
  await put('bodied', { policy: { ...here, in: ['body'] } })
  await put('authorising', { policy: { ...here, in: ['header:authorization'] } })
  await put('rooted', { policy: { hosts: ['localhost'] } })
  await put('pathed', { policy: { ...here, paths: ['/v1/accounts/*'] } })
  await put('widened', { policy: { ...here, methods: ['GET'], headers: ['X-Trace_Id'] } })
  await put('tokened', { policy: { ...here, methods: ['COPY', 'GET'], in: ['header:x-token'] } })
  await put('free', { policy: 'anywhere' })
})

const inHeader = (key: string, name = 'Authorization'): Partial<HTTPRequest> => ({
  multiHeaders: { [name]: { values: [`Bearer {{.${key}}}`] } },
})
const inBody = (key: string, method = 'POST'): Partial<HTTPRequest> => ({
  method,
  bodyString: `{"key":{{json .${key}}}}`,
})

describe('a secret goes where its policy allows', () => {
  test.each<[string, Partial<HTTPRequest>]>([
    ['here', inHeader('here')],
    ['here', inBody('here')],
    ['posted', inBody('posted')],
    ['bodied', inBody('bodied', 'PUT')],
    ['authorising', inHeader('authorising')],
    ['free', inHeader('free', 'X-Any')],
  ])('%s: %j', async (key, request) => {
    const { statusCode } = await ask(request, { secrets: [key] })
    expect(statusCode).toBe(200)
    const [received] = external.received
    expect(JSON.stringify(received?.lines) + String(received?.body)).toContain(VALUE)
  })

  test.each<[string, Partial<HTTPRequest>, RegExp]>([
    ['elsewhere', inHeader('elsewhere'), /its policy does not name this host/],
    ['posted', inHeader('posted'), /its policy does not name the method GET/],
    ['posted', inBody('posted', 'PUT'), /its policy does not name the method PUT/],
    ['bodied', inHeader('bodied'), /its policy does not name the place header:authorization/],
    ['authorising', inHeader('authorising', 'X-Echo'), /does not name the place header:x-echo/],
    ['authorising', inBody('authorising'), /its policy does not name the place body/],
    ['rooted', inHeader('rooted'), /its policy does not allow customRootCaCertPem/],
    [
      'here',
      { ...inHeader('here'), url: 'http://localhost:1/' },
      /a secret with a policy goes out over https alone/,
    ],
  ])('%s: %j is refused, and nothing is sent', async (key, request, message) => {
    const error = await failureOf(ask(request, { secrets: [key] }))
    expect(error).toMatchObject({
      name: 'EnclaveError',
      code: 'SECRET_POLICY',
      mayHaveBeenSent: false,
      message: expect.stringMatching(message),
    })
    expect(error.message).toContain(`secret ${key}: `)
    expect(external.received).toEqual([])
  })

  test('of a host where it names paths, and the path that is looked at is the one that is sent', async () => {
    const to = (path: string, headers?: HTTPRequest['multiHeaders']) => {
      const request = inHeader('pathed')
      const multiHeaders = { ...request.multiHeaders, ...headers }
      return ask({ ...request, multiHeaders, url: `${server.url}${path}` }, { secrets: ['pathed'] })
    }
    expect((await to('/v2/%2e%2e/v1/./accounts/7?x=/../')).statusCode).toBe(200)
    expect(external.received.map(({ url }) => url)).toEqual(['/v1/accounts/7?x=/../'])
    external.received.length = 0
    for (const [path, why] of [
      ['/v1/accounts/../admin', /its policy does not name this path/],
      ['/v1/accounts/..%2fadmin', /its policy names paths, and this one can be read in two ways/],
    ] as const)
      expect(await failureOf(to(path))).toMatchObject({
        code: 'SECRET_POLICY',
        mayHaveBeenSent: false,
        message: expect.stringMatching(why),
      })
    const rewriting = { 'X-Original-URL': { values: ['/admin'] } }
    expect(await failureOf(to('/v1/accounts/7', rewriting))).toMatchObject({
      code: 'SECRET_POLICY',
      message: expect.stringContaining('its policy does not name the header X-Original-URL'),
    })
    expect(external.received).toEqual([])
  })

  test('beside headers that no server reads a method or a path from', async () => {
    const beside = (key: string, headers: readonly string[], more: Partial<HTTPRequest> = {}) => {
      const name = key === 'tokened' ? 'X-Token' : 'Authorization'
      const multiHeaders = Object.fromEntries(
        headers.map(each => [each, { values: ['/v1/admin'] }]),
      )
      const request = { ...inHeader(key, name), ...more }
      return ask(
        { ...request, multiHeaders: { ...multiHeaders, ...request.multiHeaders } },
        { secrets: [key] },
      )
    }
    const url = `${server.url}/v1/accounts/7`
    expect(
      (await beside('pathed', ['Accept', 'User-Agent', 'X-Request-Id'], { url })).statusCode,
    ).toBe(200)
    expect((await beside('widened', ['x_trace-ID'])).statusCode).toBe(200)
    expect((await beside('tokened', [])).statusCode).toBe(200)
    expect((await beside('here', ['X-Any', 'X-HTTP-Method'])).statusCode).toBe(200)
    expect(lineOf('Authorization')).toEqual([`Bearer ${VALUE}`])
    external.received.length = 0
    const refused: readonly [string, string, Partial<HTTPRequest>?][] = [
      ['pathed', 'X_Original_URL', { url }],
      ['pathed', 'X-Envoy-Original-Path', { url }],
      ['posted', 'X_HTTP_Method_Override', { method: 'POST' }],
      ['tokened', 'Destination', { method: 'COPY' }],
      ['widened', 'X-Trace-Id2'],
    ]
    for (const [key, header, more] of refused)
      expect(await failureOf(beside(key, [header], more))).toMatchObject({
        code: 'SECRET_POLICY',
        mayHaveBeenSent: false,
        message: `secret ${key}: its policy does not name the header ${header}; nothing was sent`,
      })
    expect(external.received).toEqual([])
  })

  test('where headers outside a policy only cause a warning, but not beside one that changes the method', async () => {
    const enclave = enclaveOf({ policyHeaders: 'warn' })
    const { log, lines } = keepLog()
    enclave.listen(log)
    const withHeader = (name: string) => {
      const multiHeaders = {
        ...inHeader('posted').multiHeaders,
        [name]: { values: ['sk-live-not-this'] },
      }
      return ask({ method: 'POST', multiHeaders }, { enclave, secrets: ['posted'] })
    }
    for (const name of ['X-Any', 'X-Any', 'x-any', 'X-Other', 'Accept'])
      expect((await withHeader(name)).statusCode).toBe(200)
    expect(lines.filter(line => line.includes('does not name'))).toEqual([
      'secret posted has a policy that does not name the header x-any undefined',
      'secret posted has a policy that does not name the header x-other undefined',
    ])
    external.received.length = 0
    for (const name of ['X-HTTP-Method-Override', 'X_Original_URL'])
      expect(await failureOf(withHeader(name))).toMatchObject({ code: 'SECRET_POLICY' })
    expect(external.received).toEqual([])
  })

  test('and a caller that makes up headers fills no log', async () => {
    const enclave = enclaveOf({ policyHeaders: 'warn' })
    const { log, lines } = keepLog()
    enclave.listen(log)
    const many = (from: number) =>
      Object.fromEntries(
        Array.from({ length: 250 }, (_, at) => [`X-${from + at}`, { values: [''] }]),
      )
    for (const from of [0, 250, 500, 750, 1000])
      await ask(
        { method: 'POST', multiHeaders: { ...inHeader('posted').multiHeaders, ...many(from) } },
        { enclave, secrets: ['posted'] },
      )
    expect(lines.filter(line => line.includes('does not name'))).toHaveLength(1000)
  })

  test('does not count where it is listed, and put nowhere', async () => {
    const request = { ...inHeader('elsewhere'), templatePublicValues: { elsewhere: 'public' } }
    expect((await ask(request, { secrets: ['elsewhere'] })).statusCode).toBe(200)
    expect(lineOf('Authorization')).toEqual(['Bearer public'])
  })

  test('through a function of a template, too', async () => {
    const request = {
      multiHeaders: { Authorization: { values: ['Basic {{.elsewhere | basicAuth .user}}'] } },
      templatePublicValues: { user: 'me' },
    }
    expect(await failureOf(ask(request, { secrets: ['elsewhere'] }))).toMatchObject({
      code: 'SECRET_POLICY',
    })
  })

  test('is not carried on by a redirect', async () => {
    const moved = reply('302 Found\r\nlocation: https://evil.example/\r\ncontent-length: 0')
    const error = await failureOf(
      askRaw(socket => void socket.end(moved), inHeader('here'), { secrets: ['here'] }),
    )
    expect(error).toMatchObject({ code: 'UPSTREAM_ANSWER' })
  })

  test.each<[string, object]>([
    ['another URL', { url: 'https://other.example/' }],
    ['another method', { method: 'DELETE' }],
    ['another header', { headers: new Headers({ 'x-method-override': 'DELETE' }) }],
    ['another line', { multiHeaders: new Map([['X-Forwarded-Uri', ['/admin']]]) }],
  ])('holds for %s that a layer below the templates sets', async (_what, change) => {
    const plugin: EnclavePlugin = {
      name: 'change',
      attempt: next => call => next({ ...call, ...change }),
    }
    const preset = confidentialPreset({ vault, network: { loopback: true } })
    const enclave = createEnclave({ plugins: [...preset, plugin] })
    const asking = { enclave, secrets: ['posted'] }
    expect(await failureOf(ask(inBody('posted'), asking))).toMatchObject({
      code: 'SECRET_POLICY',
      mayHaveBeenSent: false,
    })
    expect(external.received).toEqual([])
  })
})

describe('a policy is stored with its secret', () => {
  test('and who edits the file can not widen it', async () => {
    await vault.put({ key: 'edited' }, VALUE, { policy: { hosts: ['api.example.com'] } })
    const folder = join(vault.directory, 'secrets', OWNER, 'main')
    const file = join(folder, readdirSync(folder).find(each => each.startsWith('edited.')) ?? '')
    const before = readFileSync(file, 'utf8')
    expect(before).not.toContain('api.example.com')
    const { ciphertext, ...fields } = JSON.parse(before)
    const tdh2 = JSON.parse(ciphertext)
    expect(Object.keys(tdh2).length).toBeGreaterThan(1)
    const refused = async (...codes: readonly string[]): Promise<void> => {
      const error = await failureOf(ask(inHeader('edited'), { secrets: ['edited'] }))
      expect(codes).toContain(error.code)
      expect(external.received).toEqual([])
    }
    // Fields beside the ciphertext count for nothing.
    writeFileSync(file, JSON.stringify({ ...fields, policy: 'anywhere', ciphertext }))
    await refused('SECRET_POLICY')
    // Each byte of what the value is encrypted in, also where the vault's writer signs for it.
    const text = ciphertext as string
    for (let at = text.length - 60; at < text.length - 4; at += 7) {
      const other = text[at] === 'A' ? 'B' : 'A'
      const changed = `${text.slice(0, at)}${other}${text.slice(at + 1)}`
      writeFileSync(file, JSON.stringify({ ...fields, ciphertext: changed }))
      await refused('VAULT')
      await plant(vault, { owner: OWNER, namespace: 'main', key: 'edited' }, changed)
      await refused('TDH2', 'VAULT')
      writeFileSync(file, before)
      await plant(vault, { owner: OWNER, namespace: 'main', key: 'edited' }, ciphertext)
    }
  })

  test('and the one that the manifest shows does not decide, though the writer has signed it', async () => {
    await vault.put({ key: 'shown' }, VALUE, { policy: { hosts: ['api.example.com'] } })
    const name = { owner: OWNER, namespace: 'main', key: 'shown' }
    const shown = async () => (await vault.list()).find(({ key }) => key === 'shown')?.policy
    expect(await shown()).toEqual({ hosts: ['api.example.com'] })
    await plant(vault, name, await vault.ciphertext(name), here)
    expect(await shown()).toEqual(here)
    expect(await failureOf(ask(inHeader('shown'), { secrets: ['shown'] }))).toMatchObject({
      code: 'SECRET_POLICY',
    })
    expect(external.received).toEqual([])
  })

  test('and no workflow gets a value that has one', async () => {
    const name = { owner: OWNER, namespace: 'main', key: 'here' }
    expect(await failureOf(readSecret(vault, name))).toMatchObject({
      code: 'SECRET_POLICY',
      message:
        'secret here has a policy, and so is put into requests alone: no workflow gets its value',
    })
    for (const key of ['free', 'apiKey'])
      expect(await readSecret(vault, { ...name, key })).toBe(VALUE)
  })

  test('a value and its policy have to fit', async () => {
    const long = 'x'.repeat(1000)
    await expect(vault.put({ key: 'long' }, long, { policy: here })).rejects.toThrow(
      /^the value of long and its policy must have at most 1022 bytes together, not 10\d\d$/,
    )
  })
})

describe('a secret without a policy', () => {
  beforeAll(() => putWithoutPolicy(vault, 'old', VALUE))

  test('is not stored any more', async () => {
    await expect(vault.put({ key: 'new' }, 'x', {} as never)).rejects.toThrow(
      /^policy must say where new may go: /,
    )
    await expect(vault.put({ key: 'new' }, 'x', undefined as never)).rejects.toThrow(/^policy must/)
  })

  test('goes on working, with one warning for each enclave', async () => {
    const enclave = enclaveOf()
    const { log, lines } = keepLog()
    enclave.listen(log)
    for (const _ of [1, 2]) await ask(inHeader('old'), { enclave, secrets: ['old'] })
    const warnings = lines.filter(line => line.includes('has no policy'))
    expect(warnings).toEqual(['secret old has no policy: it may go anywhere undefined'])
    await ask(inHeader('free'), { enclave, secrets: ['free'] })
    expect(lines.filter(line => line.includes('has no policy'))).toHaveLength(1)
  })

  test('is refused where policies are required, unless it is said that it may go anywhere', async () => {
    const enclave = enclaveOf({ requirePolicies: true })
    const error = await failureOf(ask(inHeader('old'), { enclave, secrets: ['old'] }))
    expect(error).toMatchObject({ code: 'SECRET_POLICY', mayHaveBeenSent: false })
    expect(error.message).toMatch(/it has no policy, which this enclave asks for/)
    expect((await ask(inHeader('free'), { enclave, secrets: ['free'] })).statusCode).toBe(200)
  })

  test('that encrypts answers is put nowhere, and needs none', async () => {
    const enclave = enclaveOf({ requirePolicies: true })
    const secrets = ['san_marino_aes_gcm_encryption_key']
    const { body } = await ask({ encryptOutput: true }, { enclave, secrets })
    expect(body).toHaveLength(12 + 2 + 16)
    expect(server.url).toMatch(/^https:/)
  })
})
