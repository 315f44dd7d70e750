import { createDecipheriv } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import {
  combine,
  createShare,
  generateKeys,
  parseCiphertext,
  parseDecryptionShare,
} from '../../../crypto/tdh2/index.js'
import type { ConfidentialCall } from '../../../plugins/confidential-http/call.js'
import {
  AES_KEY_SECRET,
  responseEncryption,
} from '../../../plugins/confidential-http/response-encryption.js'
import { callOf, carry, keepLog, replyOf } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

const { publicKey, shares } = generateKeys({ threshold: 2, nodes: 3 })
const DIGITS = '00112233445566778899AABBCCDDEEFF'.repeat(2)
const plain = Buffer.from('{"balance":7}')
const multiHeaders = new Map([['Content-Type', ['application/json']]])

function ask(
  fields: Partial<ConfidentialCall>,
  reply = replyOf({ status: 201, multiHeaders, body: Buffer.from(plain) }),
) {
  return carry([responseEncryption({ publicKey })], callOf(fields), () => reply)
}

const aesKey = (digits = DIGITS): Pick<ConfidentialCall, 'released'> => ({
  released: new Map([
    ['apiKey', 'sk'],
    [AES_KEY_SECRET, digits],
  ]),
})

/** The platform's AES, as an independent implementation. */
function decipher(blob: Uint8Array): Buffer {
  const bytes = Buffer.from(blob)
  const cipher = createDecipheriv('aes-256-gcm', Buffer.from(DIGITS, 'hex'), bytes.subarray(0, 12))
  cipher.setAuthTag(bytes.subarray(-16))
  return Buffer.concat([cipher.update(bytes.subarray(12, -16)), cipher.final()])
}

describe('responseEncryption', () => {
  test('does not change an answer without encryption', async () => {
    const { reply, sent } = ask({ released: new Map([['apiKey', 'sk']]) })
    expect(await reply).toEqual(replyOf({ status: 201, multiHeaders, body: Buffer.from(plain) }))
    expect([...(sent[0]?.released ?? [])]).toEqual([['apiKey', 'sk']])
  })

  test('warns of an AES key that is listed for an answer not to be encrypted, and keeps the key', async () => {
    const { log, lines } = keepLog()
    for (const digits of [DIGITS, 'no key at all']) {
      const scope = { ...callOf().scope, log }
      const { reply, sent } = ask({ ...aesKey(digits), encryptOutput: false, scope })
      expect(await reply).toEqual(replyOf({ status: 201, multiHeaders, body: Buffer.from(plain) }))
      expect([...(sent[0]?.released ?? [])]).toEqual([['apiKey', 'sk']])
    }
    const line = `SendRequest: ${AES_KEY_SECRET} is listed, but encryptOutput is not true: the answer is not encrypted undefined`
    expect(lines).toEqual([line, line])
  })

  test('encrypts under the AES key: nonce, ciphertext, tag', async () => {
    const { reply, sent } = ask({ ...aesKey(), encryptOutput: true })
    const { body, ...rest } = await reply
    expect(rest).toEqual({ status: 201, multiHeaders })
    expect(body.byteLength).toBe(12 + plain.length + 16)
    expect(decipher(body)).toEqual(plain)
    expect([...(sent[0]?.released ?? [])]).toEqual([['apiKey', 'sk']])
  })

  test('wipes the body that it encrypted', async () => {
    for (const key of [aesKey(), {}]) {
      const body = Buffer.from(plain)
      await ask({ ...key, encryptOutput: true }, replyOf({ body })).reply
      expect(body).toEqual(Buffer.alloc(plain.length))
    }
  })

  test('encrypts anew each time', async () => {
    const [one, other] = [
      await ask({ ...aesKey(), encryptOutput: true }).reply,
      await ask({ ...aesKey(DIGITS.toLowerCase()), encryptOutput: true }).reply,
    ]
    expect(Buffer.compare(one.body.subarray(0, 12), other.body.subarray(0, 12))).not.toBe(0)
    expect(decipher(other.body)).toEqual(plain)
  })

  test('encrypts under the master key of the vault where no AES key is listed', async () => {
    const { reply } = ask({ encryptOutput: true, released: new Map([['apiKey', 'sk']]) })
    const { body, status } = await reply
    const ciphertext = parseCiphertext(publicKey, Buffer.from(body).toString())
    const given = shares.slice(1).map(share => parseDecryptionShare(createShare(ciphertext, share)))
    expect(status).toBe(201)
    expect(Buffer.from(ciphertext.label)).toEqual(Buffer.alloc(32))
    expect(Buffer.from(await combine(ciphertext, given, { threshold: 2 }))).toEqual(plain)
  })

  test.each([200, 204, 400, 404, 500, 502, 504])('encrypts the body of a %i', async status => {
    const { reply } = ask(
      { ...aesKey(), encryptOutput: true },
      replyOf({ status, body: Buffer.from(plain) }),
    )
    expect(decipher((await reply).body)).toEqual(plain)
  })

  test('makes 28 bytes of an empty body', async () => {
    const { body } = await ask({ ...aesKey(), encryptOutput: true }, replyOf()).reply
    expect(body.byteLength).toBe(28)
    expect(decipher(body)).toEqual(Buffer.alloc(0))
  })

  test.each([
    ['nothing', ''],
    ['too short a key', DIGITS.slice(2)],
    ['too long a key', `${DIGITS}00`],
    ['an AES-128 key', DIGITS.slice(32)],
    ['a key in base64', Buffer.from(DIGITS, 'hex').toString('base64')],
    ['the 32 bytes of a text', 'a passphrase of thirty-two bytes'],
    ['a prefix', `0x${DIGITS.slice(2)}`],
    ['a line break inside', `${DIGITS.slice(1)}\n${DIGITS.slice(0, 1)}`],
    ['a letter that is no digit', `g${DIGITS.slice(1)}`],
  ])('rejects %s as a key before anything is sent', async (_name, digits) => {
    const { reply, sent } = ask({ ...aesKey(digits), encryptOutput: true })
    const error = await failureOf(reply)
    expect(error).toMatchObject({
      code: 'VALIDATION',
      message: `secret ${AES_KEY_SECRET} must be 64 hexadecimal digits`,
    })
    expect(sent).toEqual([])
  })

  test('passes the call on without encryptOutput', async () => {
    const { reply, sent } = ask({ encryptOutput: true })
    await reply
    expect(sent[0]?.encryptOutput).toBe(false)
  })

  test('gives no body at all where the answer fails', async () => {
    const { reply } = carry(
      [responseEncryption({ publicKey })],
      callOf({ ...aesKey(), encryptOutput: true }),
      () => Promise.reject(new Error('failed')),
    )
    expect((await failureOf(reply)).message).toBe('failed')
  })
})
