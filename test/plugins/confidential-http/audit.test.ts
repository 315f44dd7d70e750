import { describe, expect, test } from '@jest/globals'
import { type AuditEvent, type AuditLog, audit } from '../../../plugins/confidential-http/audit.js'
import { EnclaveError } from '../../../plugins/confidential-http/errors.js'
import { callOf, carry, OWNER, replyOf } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

interface Collected {
  readonly log: AuditLog
  readonly events: AuditEvent[]
}

function collect(fail: (event: AuditEvent) => unknown = () => undefined): Collected {
  const events: AuditEvent[] = []
  return {
    events,
    log: {
      async append(event) {
        const thrown = fail(event)
        if (thrown !== undefined) throw thrown
        return events.push(event)
      },
    },
  }
}

const call = callOf({
  caller: 'ab'.repeat(32),
  url: 'https://api.example:8443/path-xq9z?token=query-xq9z',
  body: 'body-xq9z {{.apiKey}}',
  multiHeaders: new Map([['X-xq9z', ['header-xq9z']]]),
  publicValues: new Map([['p', 'public-xq9z']]),
  released: new Map([['apiKey', 'secret-xq9z']]),
  secrets: [
    { key: 'apiKey', namespace: 'main', owner: OWNER },
    { key: 'other', namespace: 'staging', owner: OWNER },
  ],
  onConnected() {},
})

describe('audit', () => {
  test('records who asks for what before it begins, and what came of it before it is answered', async () => {
    const { log, events } = collect()
    let before: readonly AuditEvent[] = []
    const { reply } = carry([audit({ log })], call, given => {
      before = [...events]
      given.onConnected?.()
      const multiHeaders = new Map([['Echo', ['answer-xq9z']]])
      return replyOf({ status: 418, body: new TextEncoder().encode('said-xq9z'), multiHeaders })
    })
    await reply
    expect(before).toEqual([
      {
        type: 'request',
        caller: 'ab'.repeat(32),
        owner: OWNER,
        secrets: ['main/apiKey', 'staging/other'],
        method: 'POST',
        host: 'api.example:8443',
        bytes: expect.any(Number),
        encryptOutput: false,
      },
    ])
    expect(events.slice(1)).toEqual([
      { type: 'answer', request: 1, status: 418, sent: true, bytes: 9, ms: expect.any(Number) },
    ])
    // Of what was sent and answered nothing is recorded but sizes.
    expect(JSON.stringify(events)).not.toContain('xq9z')
  })

  test.each([
    ['an error of this library', new EnclaveError('says-xq9z', { code: 'TEMPLATE' }), 'TEMPLATE'],
    ['any other', new TypeError('says-xq9z'), 'UNKNOWN'],
  ])('records the code of %s and nothing of its words, and throws it on', async (...row) => {
    const [, thrown, code] = row
    const { log, events } = collect()
    const { reply } = carry([audit({ log })], call, () => {
      throw thrown
    })
    expect(await failureOf(reply)).toBe(thrown)
    expect(events[1]).toMatchObject({ type: 'answer', request: 1, code, sent: false, bytes: 0 })
    expect(JSON.stringify(events)).not.toContain('xq9z')
  })

  test('records a caller that has gone', async () => {
    const { log, events } = collect()
    const life = new AbortController()
    const { reply } = carry([audit({ log })], { ...call, signal: life.signal }, () => {
      life.abort()
      throw life.signal.reason
    })
    await failureOf(reply)
    expect(events[1]).toMatchObject({ code: 'ABORTED' })
  })

  test('makes no request that it can not record', async () => {
    const { log } = collect(() => new Error('disk-xq9z'))
    const { reply, sent } = carry([audit({ log })], call)
    const error = await failureOf(reply)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'AUDIT' })
    expect(error.message).toBe('the request can not be recorded')
    expect(error.cause).toBeUndefined()
    expect(sent).toEqual([])
  })

  test('gives no answer that it can not record, but the error of a request that failed', async () => {
    const { log } = collect(({ type }) => (type === 'answer' ? new Error('full') : undefined))
    expect(await failureOf(carry([audit({ log })], call).reply)).toMatchObject({ code: 'AUDIT' })
    const { reply } = carry([audit({ log })], call, () => {
      throw new EnclaveError('no', { code: 'POLICY' })
    })
    expect(await failureOf(reply)).toMatchObject({ code: 'POLICY' })
  })

  test('bounds the host', async () => {
    const { log, events } = collect()
    await carry([audit({ log })], { ...call, url: `https://${'a'.repeat(50_000)}/` }).reply
    expect(JSON.stringify(events[0]).length).toBeLessThan(1000)
  })

  test.each([[{}], [{ log: {} }], [undefined]])('%j is refused', options => {
    expect(() => audit(options as never)).toThrow(/log\.append must be a function|audit/)
  })
})
