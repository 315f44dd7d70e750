import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { type LimitsOptions, limits } from '../../../plugins/confidential-http/limits.js'
import { callOf, carry, replyOf } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

/** Milliseconds until a call is given up, on a wire that answers only when its signal aborts. */
async function patienceOf(options: LimitsOptions, fields: Parameters<typeof callOf>[0]) {
  const begun = performance.now()
  const { reply } = carry(
    [limits(options)],
    callOf(fields),
    ({ signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      ),
  )
  const failed = failureOf(reply)
  await jest.advanceTimersToNextTimerAsync()
  const error = await failed
  expect(error).toMatchObject({ name: 'EnclaveError', code: 'UPSTREAM_TIMEOUT' })
  return { ms: performance.now() - begun, message: error.message }
}

describe('limits', () => {
  test('allows a timeout of 10 s, and gives 5 s to a request that names none', async () => {
    for (const [fields, after, message] of [
      [{ timeout: 10_000 }, 9800, 'the request was not answered within 10000 ms'],
      [{}, 4800, 'the request was not answered within 5000 ms'],
    ] as const) {
      const startedAt = Date.now() - after
      const given = await patienceOf({}, { ...fields, startedAt })
      expect(given.message).toBe(message)
      expect(given.ms).toBe(200)
    }
    const { reply, sent } = carry([limits()], callOf({ timeout: 10_000.001 }))
    expect(await failureOf(reply)).toMatchObject({
      code: 'LIMIT',
      message: 'timeout must be at most 10000 ms, not 10000.001',
    })
    expect(sent).toEqual([])
  })

  test('gives the allowed time, where that is less than 5 s', async () => {
    const { ms, message } = await patienceOf({ maxTimeout: 50 }, {})
    expect(message).toBe('the request was not answered within 50 ms')
    expect(ms).toBe(50)
  })

  test('takes the times of the request and the options', async () => {
    expect((await patienceOf({ defaultTimeout: 20 }, {})).message).toMatch(/ 20 ms$/)
    expect((await patienceOf({ defaultTimeout: 20 }, { timeout: 30 })).message).toMatch(/ 30 ms$/)
    const long = carry([limits({ maxTimeout: 60_000 })], callOf({ timeout: 60_000 }))
    await long.reply
    expect(long.sent).toHaveLength(1)
  })

  test('counts from when the caller made the request', async () => {
    const { ms } = await patienceOf({}, { timeout: 5000, startedAt: Date.now() - 4800 })
    expect(ms).toBe(200)
    const { reply, sent } = carry([limits()], callOf({ startedAt: Date.now() - 60_000 }))
    expect(await failureOf(reply)).toMatchObject({
      code: 'EXPIRED',
      message: expect.stringMatching(/nothing was sent$/),
      mayHaveBeenSent: false,
    })
    expect(sent).toEqual([])
  })

  test('gives no more time to a caller whose clock is ahead', async () => {
    const { ms } = await patienceOf({}, { timeout: 50, startedAt: Date.now() + 1e12 })
    expect(ms).toBe(50)
  })

  test('ends with the call: nothing is aborted or kept waiting later', async () => {
    const { signal } = new AbortController()
    const { reply, sent } = carry([limits({ defaultTimeout: 20 })], callOf({ signal }))
    expect(await reply).toEqual(replyOf())
    expect(jest.getTimerCount()).toBe(0)
    await jest.advanceTimersByTimeAsync(40)
    expect(sent[0]?.signal.reason).not.toMatchObject({ code: 'UPSTREAM_TIMEOUT' })
  })

  test('passes on the abort of the caller', async () => {
    const caller = new AbortController()
    const { reply, sent } = carry([limits()], callOf({ signal: caller.signal }), ({ signal }) => {
      caller.abort(new Error('no interest'))
      throw signal.reason
    })
    expect(await failureOf(reply)).toMatchObject({ message: 'no interest' })
    expect(sent).toHaveLength(1)
  })

  const url = 'https://a.example/'
  test.each([
    ['the URL', {}, 0],
    ['a body of text, in UTF-8', { body: 'é🔑' }, 6],
    ['a body of bytes', { body: new Uint8Array(7) }, 7],
    ['each header line as it is sent', { multiHeaders: new Map([['Na', ['é', 'vw']]]) }, 2 * 8],
    ['public names and values', { publicValues: new Map([['n', 'é']]) }, 3],
    ['root certificates', { customRootCaCertPem: 'PEM' }, 3],
  ])('counts %s', async (_name, fields, bytes) => {
    const size = url.length + bytes
    await carry([limits({ maxRequestBytes: size })], callOf({ url, ...fields })).reply
    const { reply, sent } = carry(
      [limits({ maxRequestBytes: size - 1 })],
      callOf({ url, ...fields }),
    )
    expect(await failureOf(reply)).toMatchObject({
      name: 'EnclaveError',
      code: 'LIMIT',
      message: `the request must be at most ${size - 1} bytes, not ${size}`,
    })
    expect(sent).toEqual([])
  })

  test('allows requests of 125 kB and answers of 500 kB, by default', async () => {
    const body = 'x'.repeat(125_000 - url.length)
    const { reply, sent } = carry([limits()], callOf({ url, body }))
    await reply
    expect(sent[0]?.connection).toEqual({
      maxRequestBytes: 125_000,
      maxResponseBytes: 500_000,
    })
    const refused = carry([limits()], callOf({ url, body: `${body}x` })).reply
    expect(await failureOf(refused)).toMatchObject({ code: 'LIMIT' })
    const other = carry([limits({ maxResponseBytes: 7 })], callOf({ connection: { ca: ['pem'] } }))
    await other.reply
    expect(other.sent[0]?.connection).toEqual({
      ca: ['pem'],
      maxRequestBytes: 125_000,
      maxResponseBytes: 7,
    })
  })

  test.each([
    [{ maxTimeOut: 5 }, /^unknown option 'maxTimeOut' of limits; did you mean 'maxTimeout'\?$/],
    [{ maxTimeout: 0 }, /^limits\.maxTimeout must be at least 1/],
    [{ maxTimeout: 2 ** 31 }, /^limits\.maxTimeout must be at most/],
    [{ maxTimeout: '5s' }, /^limits\.maxTimeout must be a number/],
    [{ defaultTimeout: 10_001 }, /^limits\.defaultTimeout must be at most 10000/],
    [{ defaultTimeout: Number.NaN }, /^limits\.defaultTimeout must be a number/],
    [{ maxRequestBytes: 1.5 }, /^limits\.maxRequestBytes must be a whole number/],
    [{ maxResponseBytes: -1 }, /^limits\.maxResponseBytes must be at least 0/],
    [7, /^limits takes an object of options, not number/],
  ])('rejects %j', (options, message) => {
    expect(() => limits(options as LimitsOptions)).toThrow(message)
  })
})

test('a request whose own time was up on the way is not sent', async () => {
  const { reply, sent } = carry([limits()], callOf({ timeout: 2000, startedAt: Date.now() - 2000 }))
  expect(await failureOf(reply)).toMatchObject({ code: 'EXPIRED', mayHaveBeenSent: false })
  expect(sent).toEqual([])
})
