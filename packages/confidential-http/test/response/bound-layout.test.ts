import { createCipheriv, createDecipheriv } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { AES_KEY_SECRET } from 'sluice/plugins/confidential-http'
import { decryptResponse, type HTTPResponse } from '../../index.js'
import { normalizeRequest } from '../../request/normalize-request.js'
import { ask, DIGITS, external } from '../support/enclave.js'

const key = Buffer.from(DIGITS, 'hex')
const withKey = { secrets: [AES_KEY_SECRET] }
const bound = (requestId: string) =>
  ({ encryptOutput: true, outputLayout: 'bound-v1', requestId }) as const
const demand = (requestId: string) => ({ layout: 'bound-v1', requestId }) as const

/** The layout as the documentation has it, by Node's own AES. */
function openByHand(body: Uint8Array, status: number, requestId: string): string {
  const head = Buffer.from('SLBOUND\x01', 'latin1')
  expect(Buffer.from(body.subarray(0, 8))).toEqual(head)
  const decipher = createDecipheriv('aes-256-gcm', key, body.subarray(8, 20))
  const number = Buffer.from([0, 0, status >> 8, status & 255])
  decipher.setAAD(Buffer.concat([head, number, Buffer.from(requestId)]))
  decipher.setAuthTag(body.subarray(-16))
  return decipher.update(body.subarray(20, -16), undefined, 'utf8') + decipher.final('utf8')
}

async function askFor(requestId: string, status = 200): Promise<HTTPResponse> {
  external.answer = response => response.writeHead(status).end(`answer to ${requestId}`)
  return ask(bound(requestId), withKey)
}

describe('a bound answer', () => {
  test('is laid out as documented, and opens as the answer to its request', async () => {
    for (const status of [200, 404, 503]) {
      const response = await askFor('transfer-42', status)
      expect(openByHand(response.body, status, 'transfer-42')).toBe('answer to transfer-42')
      const opened = await decryptResponse(response, DIGITS, demand('transfer-42'))
      expect(Buffer.from(opened).toString()).toBe('answer to transfer-42')
    }
  })

  test('opens of its body alone, where the status is given', async () => {
    const { body } = await askFor('a', 201)
    const options = { ...demand('a'), statusCode: 201, crypto: globalThis.crypto }
    expect(Buffer.from(await decryptResponse(body, DIGITS, options)).toString()).toBe('answer to a')
    const base64 = Buffer.from(body).toString('base64')
    expect(await decryptResponse(base64, key, options)).toHaveLength(11)
    await expect(decryptResponse(body, DIGITS, demand('a'))).rejects.toThrow(
      'statusCode is required where only the body is given',
    )
  })

  test.each<[string, (response: HTTPResponse) => Promise<unknown>]>([
    ['with another status', each => open({ ...each, statusCode: 404 })],
    ['as the answer to another request', each => open(each, 'other')],
    ['as one in the reference’s layout', each => decryptResponse(each, DIGITS)],
    ['with its head removed', each => decryptResponse(each.body.subarray(8), DIGITS)],
    ['in another version', each => open({ ...each, body: changed(each.body, 7) })],
    ['changed', each => open({ ...each, body: changed(each.body, 25) })],
    ['under another key', each => decryptResponse(each, '1'.repeat(64), demand('mine'))],
  ])('does not open %s', async (_how, tryOpen) => {
    const error = await failureOf(tryOpen(await askFor('mine')))
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'ENCRYPTION' })
  })

  const open = (response: HTTPResponse, id = 'mine'): Promise<Uint8Array> =>
    decryptResponse(response, DIGITS, demand(id))
  function changed(body: Uint8Array, at: number): Uint8Array {
    const copy = new Uint8Array(body)
    copy[at] = (copy[at] as number) ^ 1
    return copy
  }

  test('can not be replaced by one in the reference’s layout where it is demanded', async () => {
    external.answer = response => response.end('earlier')
    const earlier = await ask({ encryptOutput: true }, withKey)
    expect(Buffer.from(await decryptResponse(earlier, DIGITS)).toString()).toBe('earlier')
    expect((await failureOf(open(earlier))).message).toBe(
      'the body is not in the layout bound-v1: it may be the answer to another request',
    )
    // Nor with the head of the other layout, which is no secret.
    const body = Buffer.concat([Buffer.from('SLBOUND\x01', 'latin1'), earlier.body])
    expect(await failureOf(open({ ...earlier, body }))).toMatchObject({ code: 'ENCRYPTION' })
  })

  test('opens where another implementation of the layout made it', async () => {
    const head = Buffer.from('SLBOUND\x01', 'latin1')
    const nonce = Buffer.alloc(12, 7)
    const cipher = createCipheriv('aes-256-gcm', key, nonce)
    cipher.setAAD(Buffer.concat([head, Buffer.from([0, 0, 0, 200]), Buffer.from('x')]))
    const body = Buffer.concat([head, nonce, cipher.update('by hand'), cipher.final()])
    const all = Buffer.concat([body, cipher.getAuthTag()])
    const opened = await decryptResponse(all, key, { ...demand('x'), statusCode: 200 })
    expect(Buffer.from(opened).toString()).toBe('by hand')
  })

  test('needs the key: with TDH2 nothing is sent', async () => {
    expect(await failureOf(ask(bound('x')))).toMatchObject({
      code: 'ENCRYPTION',
      mayHaveBeenSent: false,
    })
    expect(external.received).toEqual([])
  })
})

describe('what makes no sense is refused', () => {
  const request = { url: 'https://api.example', method: 'GET' }
  test.each<[object, RegExp]>([
    [{ outputLayout: 'bound-v1', encryptOutput: true }, /^request\.requestId must be 1 to 128/],
    [bound('with space'), /^request\.requestId must be 1 to 128 visible characters/],
    [bound('x'.repeat(129)), /^request\.requestId must be/],
    [{ ...bound('x'), encryptOutput: false }, /^request\.outputLayout must not be bound-v1 unless/],
    [{ encryptOutput: true, requestId: 'x' }, /^request\.requestId must not be given/],
    [{ outputLayout: 'bound-v2' }, /^request\.outputLayout must be 'reference' or 'bound-v1'$/],
  ])('%j', (fields, message) => {
    expect(() => normalizeRequest({ request: { ...request, ...fields } })).toThrow(message)
  })

  test('the reference’s layout by its name is the default', () => {
    const named = normalizeRequest({ request: { ...request, outputLayout: 'reference' } })
    expect(named).toEqual(normalizeRequest({ request }))
  })

  test.each<[object, RegExp]>([
    [{ layout: 'bound-v1' }, /^requestId must be 1 to 128/],
    [
      { requestId: 'x' },
      /^requestId and statusCode must not be given unless layout is 'bound-v1'$/,
    ],
    [{ layout: 'other' }, /^layout must be 'reference' or 'bound-v1'$/],
    [{ ...demand('x'), statusCode: -1 }, /^statusCode must be/],
  ])('options %j', async (options, message) => {
    const error = await failureOf(decryptResponse(new Uint8Array(99), DIGITS, options))
    expect(error).toMatchObject({ name: 'ValidationError' })
    expect(error.message).toMatch(message)
  })
})
