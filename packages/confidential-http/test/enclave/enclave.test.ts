import { createHash, createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import { describe, expect, jest, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { ConfidentialCall, EnclavePlugin } from 'sluice/plugins/confidential-http'
import { hmacAuth } from 'sluice/plugins/hmac-auth'
import { confidentialPreset } from 'sluice/presets/confidential'
import { createEnclave } from '../../enclave/enclave.js'
import {
  ask,
  askRaw,
  enclaveOf,
  external,
  lineOf,
  server,
  textOf,
  valuesOf,
  vault,
} from '../support/enclave.js'

describe('limits', () => {
  test.each([
    ['a timeout above the ceiling', { timeout: '10.001s' }, 'timeout must be at most 10000 ms'],
    ['a request that is too big', { bodyString: 'x'.repeat(125_000) }, 'at most 125000 bytes, not'],
    [
      'bytes that are too many',
      { bodyBytes: new Uint8Array(125_000) },
      'at most 125000 bytes, not',
    ],
  ])('refuse %s, and nothing is sent', async (_name, request, message) => {
    const enclave = enclaveOf({ limits: {} })
    expect(await failureOf(ask({ method: 'POST', ...request }, { enclave }))).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: expect.stringContaining(message),
    })
    expect(external.received).toEqual([])
  })

  test('count the time that had passed before the enclave was asked', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
    try {
      const startedAt = Date.now() - 8000
      let isAsked = false
      const asking = askRaw(
        () => {
          isAsked = true
        },
        { timeout: '10s' },
        { caller: { startedAt } },
      )
      while (!isAsked) await new Promise(setImmediate)
      await jest.advanceTimersByTimeAsync(2000)
      expect((await asking).statusCode).toBe(504)
    } finally {
      jest.useRealTimers()
    }
  })
})

describe('an enclave', () => {
  const answerNothing = (): void => undefined

  test('shows its stack', () => {
    expect(String(enclaveOf().stack)).toBe(
      [
        'you',
        ' │ ↓ call              ↑ reply',
        ' ├ limits              call',
        ' ├ secrets             call',
        ' ├ response-encryption call',
        ' ├ upstream-failures   call',
        ' ├ templates           attempt',
        ' ├ network-policy      attempt',
        ' ├ root-certificates   attempt',
        'wire                   https://…',
      ].join('\n'),
    )
  })

  test('gives the caller’s reason, and sends nothing, where the caller has lost interest', async () => {
    const reason = new Error('enough')
    expect(await failureOf(ask({}, { caller: { signal: AbortSignal.abort(reason) } }))).toBe(reason)
    expect(external.received).toEqual([])
    const caller = new AbortController()
    const { signal } = caller
    const failed = askRaw(() => caller.abort(reason), {}, { caller: { signal } })
    expect(await failureOf(failed)).toBe(reason)
  })

  test('that is closed ends every request, and takes no more', async () => {
    const enclave = enclaveOf()
    const failed = askRaw(() => enclave.close(), {}, { enclave })
    const closed = { code: 'CLOSED', message: 'the enclave was closed' }
    const amid = `${closed.message}; the request may have been carried out`
    expect(await failureOf(failed)).toMatchObject({ ...closed, message: amid })
    expect(await failureOf(ask({}, { enclave }))).toMatchObject(closed)
  })

  test('answers many at once, each with its own', async () => {
    external.answer = (response, { body }) => response.end(body)
    const enclave = enclaveOf()
    const texts = Array.from({ length: 20 }, (_, at) => `request ${at}`)
    const replies = await Promise.all(
      texts.map(bodyString => ask({ method: 'POST', bodyString }, { enclave })),
    )
    expect(replies.map(textOf)).toEqual(texts)
  })

  test('shares nothing with another', async () => {
    const strict = enclaveOf({ limits: { maxRequestBytes: 100 }, network: {} })
    const open = enclaveOf()
    const lines: string[] = []
    strict.listen({ debug: line => void lines.push(line), info: line => void lines.push(line) })
    const request = { customRootCaCertPem: '' }
    expect((await ask(request, { enclave: strict })).statusCode).toBe(400)
    const before = lines.length
    await ask({ method: 'POST', bodyString: 'x'.repeat(1000) }, { enclave: open })
    expect(external.received).toHaveLength(1)
    expect(lines).toHaveLength(before)
    strict.close()
    expect((await ask({}, { enclave: open })).statusCode).toBe(200)
  })

  test('may have plugins before the preset’s, which see no secret', async () => {
    const seen: ConfidentialCall[] = []
    const mine: EnclavePlugin = {
      name: 'mine',
      call: next =>
        async function look(call) {
          seen.push(call)
          const given = await next({ ...call, headers: new Headers({ 'X-Mine': 'set' }) })
          return { ...given, multiHeaders: new Map([...given.multiHeaders, ['X-Seen', ['yes']]]) }
        },
    }
    const multiHeaders = { 'x-mine': { values: ['given'] }, Key: { values: ['{{.apiKey}}'] } }
    const asking = { enclave: enclaveOf({}, [mine]), secrets: ['apiKey'] }
    expect(valuesOf(await ask({ multiHeaders }, asking), 'X-Seen')).toEqual(['yes'])
    expect(inspect(seen, { depth: 9 })).not.toContain('sk-live')
    expect(external.received[0]?.lines).toContainEqual(['Key', 'sk-live-x9q7'])
    expect(external.received[0]?.lines.filter(([name]) => name.toLowerCase() === 'x-mine')).toEqual(
      [['x-mine', 'set']],
    )
  })

  test('signs what is sent, its placeholders filled, where signing comes after templates', async () => {
    const credentials = { apiKey: 'the-key', userSecret: 'the-user-secret', now: () => 7 }
    const plugins = [
      ...confidentialPreset({ vault, network: { loopback: true } }),
      // It signs whatever goes out: an enclave's requests have all that it reads.
      hmacAuth(credentials) as unknown as EnclavePlugin,
    ]
    const url = `${server.url}/path?q=1`
    const bodyString = '{"k":"{{.apiKey}}"}'
    const asking = { enclave: createEnclave({ plugins }), secrets: ['apiKey'] }
    await ask({ url, method: 'POST', bodyString }, asking)
    const body = '{"k":"sk-live-x9q7"}'
    const hash = createHash('sha256').update(body).digest('hex')
    const signature = createHmac('sha256', 'the-user-secret')
      .update(`POST /path?q=1 ${hash} the-key 7`)
      .digest('hex')
    expect(external.received[0]?.body.toString()).toBe(body)
    expect(lineOf('x-authorization-signature-sha256')).toEqual([signature])
    expect(lineOf('authorization')).toEqual(['the-key'])
  })

  test('without the plugin that encrypts refuses to answer in the open', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).filter(
      ({ name }) => name !== 'response-encryption',
    )
    const enclave = createEnclave({ plugins })
    expect(await failureOf(ask({ encryptOutput: true }, { enclave }))).toMatchObject({
      code: 'ENCRYPTION',
      message: 'encryptOutput is true, but no plugin of the stack encrypts',
    })
    expect(external.received).toEqual([])
    expect(textOf(await ask({}, { enclave }))).toBe('ok')
  })

  test('without the plugin for failures throws them', async () => {
    const plugins = confidentialPreset({ vault }).filter(({ name }) => name !== 'upstream-failures')
    const asking = { enclave: createEnclave({ plugins }) }
    expect(await failureOf(ask({ url: 'https://10.0.0.1/' }, asking))).toMatchObject({
      code: 'POLICY',
    })
  })

  test('without the templates sends what is written, if a header can hold it', async () => {
    const plugins = confidentialPreset({ vault, network: { loopback: true } }).filter(
      ({ name }) => name !== 'templates',
    )
    const asking = { enclave: createEnclave({ plugins }), secrets: ['apiKey'] }
    await ask({ method: 'POST', bodyString: '{{.apiKey}}' }, asking)
    expect(external.received[0]?.body.toString()).toBe('{{.apiKey}}')
    const multiHeaders = { Key: { values: ['a\r\nX-Injected: 1'] } }
    expect(await failureOf(ask({ multiHeaders }, asking))).toMatchObject({ code: 'TEMPLATE' })
    expect(external.received).toHaveLength(1)
  })

  test('carries confidential calls only, of plugins of which each name stands once', () => {
    const twice = [...confidentialPreset({ vault }), ...confidentialPreset({ vault })]
    expect(() => createEnclave({ plugins: twice })).toThrow(/both named "limits"/)
  })

  test('tells its log what was answered, and how long it took', async () => {
    const enclave = enclaveOf()
    const lines: unknown[][] = []
    enclave.listen({ info: (...line) => void lines.push(line) })
    await ask({}, { enclave })
    expect(lines).toEqual([
      [
        expect.stringMatching(/^GET localhost:\d+: 200 in \d+ ms$/),
        {
          method: 'GET',
          host: expect.stringMatching(/^localhost:/),
          status: 200,
          ms: expect.any(Number),
        },
      ],
    ])
    await askRaw(answerNothing, { timeout: '50ms' }, { enclave })
    expect(lines[1]?.[0]).toMatch(/^GET 127.0.0.1:\d+: 504 in/)
  })
})
