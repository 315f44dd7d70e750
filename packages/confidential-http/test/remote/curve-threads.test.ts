import type { Worker } from 'node:worker_threads'
import { afterAll, expect, jest, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys } from 'sluice/internal'
import { CurveThreads } from '../../remote/curve-threads.js'
import { openAnswer, openBootKey, sealRequest } from '../../remote/protocol.js'
import { terminateWorker } from '../../thread/worker.js'

const keys = { enclave: boxKeys(), boot: boxKeys() }
const threads = new CurveThreads(keys)
afterAll(() => threads.close())

const asker = (signal = new AbortController().signal) => ({
  caller: () => 'c',
  isKnown: () => true,
  address: 'a',
  signal,
})

test('a thread seals boot keys, opens requests and seals answers as the protocol says', async () => {
  const other = boxKeys()
  const [bootKey, opened, foreign, answer] = await Promise.all([
    threads.run(() => ({ type: 'seal-boot-key', json: '{}', asker: other.publicKey }), asker()),
    threads.run(
      () => ({ type: 'open-request', sealed: sealRequest('{"a":1}', keys.boot.publicKey, other) }),
      asker(),
    ),
    threads.run(
      () => ({ type: 'open-request', sealed: sealRequest('{}', boxKeys().publicKey, other) }),
      asker(),
    ),
    threads.run(() => ({ type: 'seal-answer', json: '[]', replyTo: other.publicKey }), asker()),
  ])
  expect(openBootKey(bootKey, keys.enclave.publicKey, other)).toBe('{}')
  expect(opened).toEqual({ json: '{"a":1}', caller: other.publicKey })
  expect(foreign).toBeUndefined()
  expect(openAnswer(answer, keys.boot.publicKey, other)).toBe('[]')
})

test('a task that can not be done fails alone: the next has a thread again', async () => {
  const broken = { type: 'seal-boot-key', json: '{}', asker: new Uint8Array(3) } as const
  const whole = { ...broken, asker: boxKeys().publicKey }
  const failed = threads.run(() => broken, asker())
  const next = threads.run(() => whole, asker())
  expect((await failureOf(failed)).message).toBe('a thread of the enclave ended')
  expect((await next).byteLength).toBeGreaterThan(40)
})

test('who has gone gets nothing done', async () => {
  const life = new AbortController()
  life.abort()
  let isAsked = false
  const task = () => {
    isAsked = true
    return { type: 'seal-answer', json: '', replyTo: new Uint8Array(32) } as const
  }
  expect(await failureOf(threads.run(task, asker(life.signal)))).toMatchObject({
    name: 'AbortError',
  })
  expect(isAsked).toBe(false)
})

test('a thread that does not end its task is replaced, and its place is free again', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
  try {
    const task = { type: 'seal-boot-key', json: '{}', asker: boxKeys().publicKey } as const
    let isBegun = false
    const stuck = threads.run(() => {
      isBegun = true
      return task
    }, asker())
    while (!isBegun) await Promise.resolve()
    // The thread can't have answered: nothing was heard since.
    jest.advanceTimersByTime(120_000)
    expect((await failureOf(stuck)).message).toBe(
      'a thread of the enclave did no task within 120000 ms',
    )
    expect((await threads.run(() => task, asker())).byteLength).toBeGreaterThan(40)
  } finally {
    jest.useRealTimers()
  }
})

test('a thread that can not be terminated is not waited for without end', async () => {
  jest.useFakeTimers()
  try {
    const ended = terminateWorker({ terminate: () => new Promise(() => undefined) } as Worker)
    await jest.advanceTimersByTimeAsync(800)
    await ended
  } finally {
    jest.useRealTimers()
  }
})
