import { expect, test } from '@jest/globals'
import type { NatsConnection } from '@nats-io/transport-node'
import { failureOf } from '@sluice/test-support/waiting.js'
import { logError, RelayLogError, streamError } from '../errors.js'
import { keepTrying } from '../log.js'

/** An answer of JetStream, as its library throws it. */
function answer(status: number, code: number, message = 'no'): Error {
  return Object.assign(new Error(message), { name: 'JetStreamApiError', status, code })
}

/** A failure of the library without an answer of JetStream. */
function failure(name: string, message = 'no', cause?: Error): Error {
  return Object.assign(new Error(message, { cause }), { name })
}

const open = { isClosed: () => false } as NatsConnection
const closed = { isClosed: () => true } as NatsConnection

/** How often something is tried that fails once. */
async function attempts(thrown: Error, connection = open): Promise<number> {
  let count = 0
  const attempt = async (): Promise<void> => {
    if (++count === 1) throw thrown
  }
  await keepTrying(connection, attempt, 60_000, 0).catch(() => undefined)
  return count
}

test.each([
  ['an account that is full', answer(400, 10_002)],
  ['too many consumers', answer(400, 10_026)],
  ['too many streams', answer(400, 10_027)],
  ['too little memory', answer(500, 10_028)],
  ['an account without JetStream', failure('JetStreamNotEnabled', 'no', answer(503, 10_039))],
  ['too little storage', answer(500, 10_047)],
  ['a setting that is not valid', answer(500, 10_052)],
  ['copies without a cluster', answer(500, 10_074)],
  ['a stream that is full', answer(503, 10_077, 'maximum bytes exceeded')],
  ['max bytes that are missing', answer(400, 10_113)],
  ['max bytes that are too many', answer(400, 10_122)],
  ['a wrong request that nobody knows yet', answer(400, 19_999)],
  ['a permission', failure('RequestError', 'Permissions Violation for Publish to "x"')],
  ['an error of this library', new RelayLogError('no')],
])('%s is final', async (_name, thrown) => {
  expect(await attempts(thrown)).toBe(1)
  expect(logError('it failed', thrown).isRetryable).toBe(false)
  expect(streamError('SLUICE', thrown).isRetryable).toBe(false)
})

test.each([
  ['servers that are about to start', answer(400, 10_005)],
  ['an election', answer(503, 10_008)],
  ['an overload', answer(503, 10_023)],
  ['too many requests', answer(429, 10_167)],
  ['a stream that does not exist', answer(404, 10_059)],
  ['a stream that another process made', answer(400, 10_058)],
  ['a key that another process wrote', answer(400, 10_071)],
  ['a store that failed', answer(503, 10_077, 'no space left on device')],
  ['no answer', failure('TimeoutError')],
  ['nobody who answers', failure('JetStreamNotEnabled', 'no', failure('RequestError'))],
])('%s may pass', async (_name, thrown) => {
  expect(await attempts(thrown)).toBe(2)
  expect(streamError('SLUICE', thrown).isRetryable).toBe(true)
})

test('nothing is tried again over a connection that is closed', async () => {
  expect(await attempts(failure('TimeoutError'), closed)).toBe(1)
})

test('what is tried again ends after its time, with the last error', async () => {
  let count = 0
  const error = await failureOf(
    keepTrying(open, () => Promise.reject(new Error(String(++count))), -1, 0),
  )
  expect(error.message).toBe('1')
})
