import { describe, expect, test } from '@jest/globals'
import type { ErrorCode } from '../../../core/errors.js'
import { EnclaveError } from '../../../plugins/confidential-http/errors.js'
import { upstreamFailures } from '../../../plugins/confidential-http/upstream-failures.js'
import { callOf, carry, keepLog } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

const fail = (thrown: unknown, fields: Parameters<typeof callOf>[0] = {}) =>
  carry([upstreamFailures()], callOf(fields), () => Promise.reject(thrown)).reply

describe('upstreamFailures', () => {
  test.each<[ErrorCode, number, string]>([
    ['POLICY', 400, 'upstream request blocked by enclave network policy'],
    ['UPSTREAM_HOST', 502, 'upstream host unreachable'],
    ['UPSTREAM_REFUSED', 502, 'upstream connection refused'],
    ['UPSTREAM_CLOSED', 502, 'upstream closed the connection before responding'],
    ['UPSTREAM_TIMEOUT', 504, 'upstream request timed out'],
  ])('answers %s with %i', async (code, status, body) => {
    const reply = await fail(new EnclaveError('inner words', { code }))
    expect({ ...reply, body: Buffer.from(reply.body).toString() }).toEqual({
      status,
      multiHeaders: new Map(),
      body,
    })
  })

  test.each<ErrorCode>([
    'ENCLAVE',
    'TEMPLATE',
    'LIMIT',
    'ENCRYPTION',
    'UPSTREAM_TLS',
    'UPSTREAM_ANSWER',
    'VAULT',
    'VALIDATION',
    'CLOSED',
  ])('leaves %s an error', async code => {
    const error = new EnclaveError('inner words', { code })
    expect(await failureOf(fail(error))).toBe(error)
  })

  test('leaves the errors of others alone, whatever code they have', async () => {
    for (const thrown of [Object.assign(new Error(), { code: 'POLICY' }), undefined, 'POLICY'])
      await expect(fail(thrown)).rejects.toBe(thrown)
  })

  test('logs the reason', async () => {
    const { log, lines } = keepLog()
    const { scope } = callOf()
    await fail(new EnclaveError('the address', { code: 'POLICY' }), { scope: { ...scope, log } })
    expect(lines).toEqual(['SendRequest: the address undefined'])
  })
})
