import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { EnclaveError, type EnclavePlugin } from 'sluice/plugins/confidential-http'
import { confidentialPreset } from 'sluice/presets/confidential'
import { encrypt, ownerLabel } from 'sluice/tdh2'
import { createEnclave } from '../../enclave/enclave.js'
import { createVault } from '../../vault/create-vault.js'
import {
  ask,
  directory,
  enclaveOf,
  external,
  OWNER,
  SECRETS,
  server,
  vault,
} from '../support/enclave.js'
import { plant } from '../support/vault/plant.js'

describe('secrets', () => {
  test('that are not there are an error that names them', async () => {
    expect(await failureOf(ask({}, { secrets: ['apiKey', 'missing'] }))).toMatchObject({
      name: 'VaultError',
      code: 'VAULT',
      message: `key does not exist: 0x${OWNER}::main::missing`,
    })
    expect(external.received).toEqual([])
  })

  test('of any length leave the caller the same room, so that it can measure none', async () => {
    const room = 20_000
    const enclave = enclaveOf({ limits: { maxRequestBytes: room, maxTimeout: 90_000 } })
    const lengths = { none: 0, some: 8, many: 980 }
    for (const [key, length] of Object.entries(lengths))
      await vault.put({ key }, '<'.repeat(length), { policy: 'anywhere' })
    const outcome = (key: string, placeholder: string, own: number) => {
      const bodyString = 'x'.repeat(own) + placeholder.replaceAll('KEY', `.${key}`)
      const asked = ask({ method: 'POST', bodyString }, { enclave, secrets: [key] })
      return asked.then(
        ({ statusCode }) => String(statusCode),
        ({ code, message }) => `${code} ${message}`,
      )
    }
    // From one outcome for every secret to the other.
    for (const placeholder of ['{{KEY}}{{KEY}}', '{{js KEY}}']) {
      const seen = new Set<string>()
      for (let own = room - server.ca.length - 200; own > 12_000; own -= 450) {
        const outcomes = await Promise.all(
          Object.keys(lengths).map(key => outcome(key, placeholder, own)),
        )
        expect(outcomes).toEqual(outcomes.map(() => outcomes[0]))
        seen.add(outcomes[0] as string)
      }
      expect([...seen]).toEqual([
        'LIMIT request.bodyString: with its placeholders filled, the request is too long',
        '200',
      ])
    }
  })

  test('of another owner are refused, whoever names them', async () => {
    const other = 'f'.repeat(40)
    const named = [{ key: 'apiKey', namespace: 'main', owner: `0x${other}` }]
    const request = { url: server.url, method: 'GET' }
    const input = { request, vaultDonSecrets: named }
    expect(await failureOf(ask({}, { input }))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('its owner'),
    })
    // Theirs is a name of its own, under which there is nothing.
    expect(await failureOf(ask({}, { input, caller: { owner: other } }))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('key does not exist'),
    })
    expect(external.received).toEqual([])
  })

  test('of their owner are found however its address is written', async () => {
    const vaultDonSecrets = [{ key: 'apiKey', owner: `0x${OWNER.toUpperCase()}` }]
    const input = {
      request: {
        url: server.url,
        method: 'POST',
        bodyString: '{{.apiKey}}',
        customRootCaCertPem: server.ca,
      },
      vaultDonSecrets,
    }
    await ask({}, { input, caller: { owner: `0X${OWNER}` } })
    expect(external.received[0]?.body.toString()).toBe('sk-live-x9q7')
  })

  test.each([undefined, '', 'me', `0x${OWNER}00`])('are nobody’s who is called %j', async owner => {
    const caller = { owner } as never
    expect(await failureOf(ask({}, { caller }))).toMatchObject({
      code: 'VALIDATION',
      message: expect.stringMatching(/^caller\.owner must be an address/),
    })
  })

  test('that are no UTF-8 are refused', async () => {
    await vault.put({ key: 'bytes' }, 'x', { policy: 'anywhere' })
    const value = Buffer.from('sk-live-x9q7\xff', 'latin1')
    const ciphertext = await encrypt(vault.publicKey, value, { label: ownerLabel(OWNER) })
    await plant(vault, { owner: OWNER, namespace: 'main', key: 'bytes' }, ciphertext)
    expect(await failureOf(ask({}, { secrets: ['bytes'] }))).toMatchObject({
      name: 'VaultError',
      message: 'secret bytes: its value is not valid UTF-8',
    })
  })

  test('are released while enough holders are well, and not with too few', async () => {
    const threefold = await createVault(join(directory, 'threefold'), { owner: OWNER })
    await threefold.put({ key: 'apiKey' }, SECRETS.apiKey, { policy: 'anywhere' })
    const enclave = enclaveOf({ vault: threefold })
    const request = { method: 'POST', bodyString: '{{.apiKey}}' }
    const asking = { enclave, secrets: ['apiKey'] }
    const shareOf = (index: number): string => join(threefold.directory, `shares/1/${index}.json`)
    rmSync(shareOf(0))
    await ask(request, asking)
    expect(external.received[0]?.body.toString()).toBe('sk-live-x9q7')
    writeFileSync(shareOf(1), readFileSync(shareOf(2)))
    expect(await failureOf(ask(request, asking))).toMatchObject({
      name: 'VaultError',
      message: [
        'secret apiKey: 1 of the 2 shares it takes are good',
        '  holder 0: shares/1/0.json is missing',
        '  holder 1: shares/1/1.json is the share of holder 2',
      ].join('\n'),
    })
    expect(external.received).toHaveLength(1)
  })

  test('are read anew for each request', async () => {
    const enclave = enclaveOf()
    const asking = { enclave, secrets: ['changing'] }
    for (const value of ['one', 'other']) {
      await vault.put({ key: 'changing' }, value, { policy: 'anywhere' })
      await ask({ method: 'POST', bodyString: '{{.changing}}' }, asking)
    }
    expect(external.received.map(({ body }) => body.toString())).toEqual(['one', 'other'])
  })

  test('are not told by a plugin that fails with one in its words', async () => {
    const revealing: EnclavePlugin = {
      name: 'revealing',
      attempt: () =>
        async function reveal(call) {
          const secret = String(call.body)
          throw new EnclaveError(`no: ${secret}`, {
            code: 'POLICY',
            cause: new TypeError(`because of ${secret}`),
          })
        },
    }
    const [limits, secrets, encryption, failures, templates] = confidentialPreset({ vault })
    const inner = [limits, secrets, encryption, failures, templates, revealing] as EnclavePlugin[]
    const request = { method: 'POST', bodyString: '{{.apiKey}}' }
    const answered = await ask(request, {
      enclave: createEnclave({ plugins: inner }),
      secrets: ['apiKey'],
    })
    expect(answered.statusCode).toBe(400)
    const outer = inner.filter(({ name }) => name !== 'upstream-failures')
    const asking = { enclave: createEnclave({ plugins: outer }), secrets: ['apiKey'] }
    expect(await failureOf(ask(request, asking))).toMatchObject({
      message: expect.stringMatching(/the reason repeats a secret$/),
    })
  })
})
