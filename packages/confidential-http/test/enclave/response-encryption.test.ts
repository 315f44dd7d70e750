import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { AES_KEY_SECRET } from 'sluice/plugins/confidential-http'
import { decryptResponse } from '../../response/decrypt-response.js'
import type { HTTPResponse } from '../../types.js'
import { ask, DIGITS, external, server, textOf, valuesOf, vault } from '../support/enclave.js'
import { startRawServer } from '../support/raw-server.js'

describe('the encryption of the answer', () => {
  const opened = async (response: HTTPResponse): Promise<string> =>
    Buffer.from(await decryptResponse(response, DIGITS)).toString()
  const withKey = { secrets: [AES_KEY_SECRET] }

  test('is left out unless asked for', async () => {
    expect(textOf(await ask({}))).toBe('ok')
    expect(textOf(await ask({ encryptOutput: false }, { secrets: ['apiKey'] }))).toBe('ok')
  })

  test('is left out unless asked for, also where its key is listed', async () => {
    expect(textOf(await ask({}, withKey))).toBe('ok')
    const asking = { secrets: ['apiKey', AES_KEY_SECRET] }
    const request = { method: 'POST', bodyString: `{{.${AES_KEY_SECRET}}}`, encryptOutput: false }
    expect(await failureOf(ask(request, asking))).toMatchObject({ code: 'TEMPLATE' })
  })

  test('is AES-GCM under the key that is listed', async () => {
    external.answer = response =>
      response.writeHead(200, { 'content-length': 13 }).end('{"balance":7}')
    const response = await ask({ encryptOutput: true }, withKey)
    expect(response.body).toHaveLength(12 + 13 + 16)
    expect(await opened(response)).toBe('{"balance":7}')
    expect(valuesOf(response, 'Content-Length')).toEqual(['13'])
  })

  test('is TDH2 under the key of the vault where none is', async () => {
    external.answer = response => response.end('{"balance":7}')
    const response = await ask({ encryptOutput: true })
    expect(textOf(response)).not.toContain('balance')
    expect(Buffer.from(await vault.decryptResponse(response.body)).toString()).toBe('{"balance":7}')
    expect((await ask({ encryptOutput: true })).body).not.toEqual(response.body)
  })

  test('covers every status, and answers that the enclave makes itself', async () => {
    for (const status of [204, 404, 500]) {
      external.answer = response =>
        response.writeHead(status).end('no'.repeat(status === 204 ? 0 : 1))
      const response = await ask({ encryptOutput: true }, withKey)
      expect(response.statusCode).toBe(status)
      expect(response.body).toHaveLength(status === 204 ? 28 : 30)
      expect(await opened(response)).toBe(status === 204 ? '' : 'no')
    }
    const nobody = await startRawServer(() => undefined)
    for (const [status, text, request] of [
      [400, 'upstream request blocked by enclave network policy', { url: 'https://10.0.0.1/' }],
      [504, 'upstream request timed out', { url: nobody.url, customRootCaCertPem: nobody.ca }],
      [502, 'upstream connection refused', { url: nobody.url }],
    ] as const) {
      if (status === 502) await nobody.close()
      const timeout = status === 504 ? '800ms' : '10s'
      const response = await ask({ ...request, timeout, encryptOutput: true }, withKey)
      expect(response.statusCode).toBe(status)
      expect(textOf(response)).not.toContain('upstream')
      expect(await opened(response)).toBe(text)
    }
  })

  test('takes no key but 64 hexadecimal digits, and asks before anything is sent', async () => {
    for (const value of [DIGITS.slice(2), `${DIGITS}0`, 'a passphrase of thirty-two bytes']) {
      await vault.put({ key: AES_KEY_SECRET, namespace: 'wrong' }, value, { policy: 'anywhere' })
      const input = {
        request: { url: server.url, method: 'GET', encryptOutput: true },
        vaultDonSecrets: [{ key: AES_KEY_SECRET, namespace: 'wrong' }],
      }
      expect(await failureOf(ask({}, { input }))).toMatchObject({
        message: `secret ${AES_KEY_SECRET} must be 64 hexadecimal digits`,
      })
    }
    expect(external.received).toEqual([])
  })
})
