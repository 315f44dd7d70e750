import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type HTTPSServer, startHTTPSServer } from '@sluice/engine'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys, parseKey } from 'sluice/internal'
import { bindingOf, checkEvidence, presentEvidence } from '../../attestation/evidence.js'
import {
  type Attestor,
  ConfidentialHTTPClient,
  createKeys,
  createRemoteRuntime,
  type EnclaveServer,
  measureCode,
  type RemoteRuntimeOptions,
  type SoftwarePolicyOptions,
  softwareAttestor,
  softwarePolicy,
  startEnclaveServer,
} from '../../index.js'
import { openBootKey, sealBootKey } from '../../remote/protocol.js'
import { createVault } from '../../vault/create-vault.js'
import type { Vault } from '../../vault/vault.js'
import { postTo } from '../support/raw-caller.js'

const SIGNING = '7'.repeat(64)
const attestor = softwareAttestor({ secretKey: SIGNING })
const policy: SoftwarePolicyOptions = {
  publicKey: attestor.publicKey,
  measurements: [measureCode()],
}
const [keys, caller] = [createKeys(), createKeys()]
const client = new ConfidentialHTTPClient()
let folder: string
let vault: Vault
let api: HTTPSServer
let asked = 0
let server: EnclaveServer
let present: Attestor = attestor
const closing: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-attested-'))
  vault = await createVault(join(folder, 'vault'), { holders: 1 })
  api = await startHTTPSServer({
    handler(_request, response) {
      asked++
      response.end('ok')
    },
  })
  server = await serverWith({
    get format() {
      return present.format
    },
    attest: binding => present.attest(binding),
  })
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  asked = 0
})
afterAll(async () => {
  await server.close()
  await api.close()
  rmSync(folder, { recursive: true, force: true })
})

const serverWith = (given?: Attestor): Promise<EnclaveServer> =>
  startEnclaveServer({
    vault: vault.directory,
    secretKey: keys.secretKey,
    callers: { [caller.publicKey]: vault.owner },
    network: { loopback: true },
    limits: { maxTimeout: 90_000 },
    ...(given === undefined ? {} : { attestor: given }),
  })

/** Has the one enclave attest as this attestor does. */
function attestAs(given: Attestor): EnclaveServer {
  present = given
  return server
}

async function ask(
  url: string,
  attestation: RemoteRuntimeOptions['attestation'] = policy,
): Promise<number> {
  const runtime = createRemoteRuntime({
    url,
    enclavePublicKey: keys.publicKey,
    callerSecretKey: caller.secretKey,
    defaultTimeout: 90_000,
    ...(attestation === undefined ? {} : { attestation }),
  })
  closing.push(() => runtime.close())
  const request = { url: api.url, method: 'GET', customRootCaCertPem: api.ca }
  return (await client.sendRequestAsync(runtime, { request })).statusCode
}

async function rejectionOf(url: string, given?: RemoteRuntimeOptions['attestation']) {
  const error = await failureOf(ask(url, given ?? policy))
  expect(error).toMatchObject({
    name: 'EnclaveError',
    code: 'ATTESTATION',
    mayHaveBeenSent: false,
  })
  expect(asked).toBe(0)
  return error.message.replace(/^the enclave at \S+ is not attested: /, '')
}

describe('a caller with a policy', () => {
  test('asks an enclave whose evidence is good', async () => {
    const { url } = attestAs(attestor)
    expect(await ask(url)).toBe(200)
    expect(asked).toBe(1)
  })

  test('sends nothing where there is no evidence, or other than expected', async () => {
    await using silent = await serverWith()
    expect(await rejectionOf(silent.url)).toBe('it presents no evidence')
    const { url } = attestAs(attestor)
    const other = { ...policy, measurements: ['1'.repeat(64)] }
    expect(await rejectionOf(url, other)).toBe(
      `its measurement is ${measureCode()}, which is not expected`,
    )
    const stranger = {
      ...policy,
      publicKey: softwareAttestor({ secretKey: '8'.repeat(64) }).publicKey,
    }
    expect(await rejectionOf(url, stranger)).toMatch(/^its evidence is not signed by the key/)
    const format = { format: 'aws-nitro', attest: () => new Uint8Array(96) }
    expect(await rejectionOf(attestAs(format).url)).toBe(
      'its evidence is of the format aws-nitro, not sluice-software-v1',
    )
  })

  test('has a policy of its own, in a module: it gets what the evidence must hold', async () => {
    const { url } = attestAs({ format: 'plain', attest: binding => binding })
    const write = (name: string, source: string): URL => {
      writeFileSync(join(folder, name), source)
      return pathToFileURL(join(folder, name))
    }
    const good = write(
      'good.mjs',
      `export default async function check({ format, bytes, binding, enclavePublicKey, bootKey, nonce }) {
        if (format !== 'plain' || Buffer.compare(bytes, binding) !== 0) throw new Error('no')
        for (const each of [enclavePublicKey, bootKey, nonce, binding]) if (each.length !== 32) throw new Error('short')
      }`,
    )
    expect(await ask(url, good)).toBe(200)
    asked = 0
    const bad = write('bad.cjs', `module.exports = () => { throw new Error('PCR0 is not mine') }`)
    expect(await rejectionOf(url, bad)).toBe('PCR0 is not mine')
    const none = write('none.mjs', 'export default 7')
    expect(await failureOf(ask(url, none))).toMatchObject({ code: 'VALIDATION' })
  })

  test('an attestor that fails, or makes no evidence, is an error of the enclave', async () => {
    const failing = { format: 'x', attest: () => Promise.reject(new Error('no device')) }
    const attests = [failing.attest, () => 'text' as never, () => new Uint8Array(70_000)]
    for (const attest of attests.slice(0, inForm(2, 3))) {
      const { url } = attestAs({ format: 'x', attest })
      const error = await failureOf(ask(url))
      expect(error).toMatchObject({ name: 'EnclaveError', mayHaveBeenSent: false })
      expect(error.message).toMatch(/answered 500/)
    }
  })
})

describe('evidence of another is none', () => {
  /** Has the pinned key, as a thief of the key file would, and presents what `evidence` makes of a question. */
  async function startThief(evidence: (asker: Uint8Array) => Promise<unknown>): Promise<string> {
    const stolen = boxKeys(parseKey('key', keys.secretKey))
    const boot = boxKeys()
    const server: Server = createServer((request, response) => {
      request.once('data', async (chunk: Buffer) => {
        const asker = new Uint8Array(chunk)
        const bootKey = Buffer.from(boot.publicKey).toString('hex')
        const json = { version: 2, bootKey, upFor: 5, evidence: await evidence(asker) }
        response.end(sealBootKey(JSON.stringify(json), asker, stolen))
      })
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    closing.push(async () => server.closeAllConnections())
    closing.push(async () => void server.close())
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** What the enclave presents to a question of a pair. */
  async function presentedBy({ url }: EnclaveServer, asker = boxKeys()) {
    const { body } = await postTo(url, asker.publicKey, '/v2/boot-key')
    return JSON.parse(openBootKey(body, parseKey('key', keys.publicKey), asker) ?? '{}')
  }

  test('a relay, which asks a good enclave at that moment, is rejected', async () => {
    const good = attestAs(attestor)
    const thief = await startThief(async () => (await presentedBy(good)).evidence)
    expect(await rejectionOf(thief)).toMatch(/for another enclave or question$/)
  })

  test('a replay of earlier evidence is rejected, though its boot key is the same', async () => {
    const good = attestAs(attestor)
    const { bootKey, evidence } = await presentedBy(good)
    const enclavePublicKey = parseKey('key', keys.publicKey)
    const later = {
      enclavePublicKey,
      bootKey: parseKey('key', bootKey),
      nonce: boxKeys().publicKey,
    }
    await expect(checkEvidence(evidence, later, softwarePolicy(policy), 'x')).rejects.toMatchObject(
      { code: 'ATTESTATION' },
    )
    const thief = await startThief(async () => evidence)
    expect(await rejectionOf(thief)).toMatch(/for another enclave or question$/)
  })

  test.each([
    ['null', null],
    ['a text', 'evidence'],
    ['no format', { bytes: '' }],
    ['a strange format', { format: 'A B', bytes: '' }],
    ['bytes that are no base64', { format: 'x', bytes: '!' }],
    ['too much', { format: 'x', bytes: 'A'.repeat(100_000) }],
  ])('%s is no evidence', async (_what, evidence) => {
    const bound = {
      enclavePublicKey: boxKeys().publicKey,
      bootKey: boxKeys().publicKey,
      nonce: boxKeys().publicKey,
    }
    const error = await failureOf(checkEvidence(evidence, bound, softwarePolicy(policy), 'x'))
    expect(error.message).toMatch(/: what it presents is no evidence/)
  })

  test('what is no evidence is rejected over the wire, too', async () => {
    const thief = await startThief(async () => 'evidence')
    expect(await rejectionOf(thief)).toBe('what it presents is no evidence')
  })

  test('is bound to each of the three, and to nothing else', async () => {
    const good = {
      enclavePublicKey: boxKeys().publicKey,
      bootKey: boxKeys().publicKey,
      nonce: boxKeys().publicKey,
    }
    const { format, bytes } = await presentEvidence(attestor, good)
    const given = { format, bytes: Buffer.from(bytes).toString('base64') }
    await checkEvidence(given, good, softwarePolicy(policy), 'x')
    for (const name of ['enclavePublicKey', 'bootKey', 'nonce'] as const) {
      const other = { ...good, [name]: boxKeys().publicKey }
      expect(bindingOf(other)).not.toEqual(bindingOf(good))
      await expect(checkEvidence(given, other, softwarePolicy(policy), 'x')).rejects.toThrow(
        'is not attested',
      )
    }
    for (let at = 0; at < bytes.length; at += 5) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      const evidence = { format, bytes: changed.toString('base64') }
      await expect(checkEvidence(evidence, good, softwarePolicy(policy), 'x')).rejects.toThrow(
        'is not signed by the key',
      )
    }
  })
})

test.each<[unknown, RegExp]>([
  ['./policy.js', /^attestation must be an absolute URL/],
  [{ publicKey: 'x', measurements: [] }, /^attestation\.publicKey must be 64 hexadecimal digits/],
  [
    { publicKey: '1'.repeat(64), measurements: [] },
    /^attestation\.measurements must name at least one/,
  ],
  [
    { publicKey: '1'.repeat(64), measurements: ['x'] },
    /^attestation\.measurements\[0\] must be 64/,
  ],
])('the policy %j is refused', (attestation, message) => {
  const given = {
    url: 'http://x',
    enclavePublicKey: keys.publicKey,
    callerSecretKey: caller.secretKey,
  }
  expect(() => createRemoteRuntime({ ...given, attestation: attestation as never })).toThrow(
    message,
  )
})

test('an attestor that is none is refused, before anything starts', async () => {
  const bad = [{ format: 'x' }, { format: 'A', attest: () => new Uint8Array() }]
  for (const each of bad)
    expect(await failureOf(serverWith(each as never))).toMatchObject({ code: 'VALIDATION' })
})
