import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { RenewedThread } from '../../thread/renewed-thread.js'
import type { Question } from '../../thread/thread-messages.js'
import { failing } from '../support/sending.js'

const file = pathToFileURL(join(__dirname, '../support/gated-thread.mjs'))
const closed = new Error('closed by the test')
const question = (url: string): Question =>
  ({ type: 'request', request: { request: { url } } }) as never

const started: { readonly thread: RenewedThread; readonly gate: Int32Array }[] = []
const errors: string[] = []
afterEach(async () => {
  jest.useRealTimers()
  for (const { thread, gate } of started.splice(0)) {
    open(gate)
    await thread.end(closed)
  }
  errors.length = 0
})

/** Starts a thread behind a closed gate. */
function startThread(requests = 1000, quietMs = 1_000_000) {
  const gate = new Int32Array(new SharedArrayBuffer(16))
  const log = { error: (message: string) => void errors.push(message) }
  const thread = new RenewedThread(
    { file, memoryMb: 64, settings: { gate }, log },
    { requests, quietMs },
  )
  started.push({ thread, gate })
  const ask = (url: string, timeout: number): Promise<unknown> =>
    thread.send(question(url), timeout).resultAsync()
  return { thread, gate, ask }
}

/** The same, on a clock that the test moves. */
function start(...rule: Parameters<typeof startThread>) {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
  return startThread(...rule)
}

/** Waits until the thread of this gate has ended, and says with which code. The clock stands meanwhile. */
async function exitCode(gate: Int32Array): Promise<number> {
  while (Atomics.load(gate, 1) === 0) await new Promise(setImmediate)
  return Atomics.load(gate, 1) - 1
}

function open(gate: Int32Array): void {
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
}

/** How long a thread may start. */
const MAX_START = 120_000

test('a thread that starts slowly is kept, however many requests give up meanwhile', async () => {
  const { thread, gate, ask } = start()
  for (let at = 10_700; at < MAX_START; at += 10_700) {
    const asked = failureOf(ask('/', 10_700))
    await jest.advanceTimersByTimeAsync(10_700)
    expect(await asked).toMatchObject({
      name: 'EnclaveError',
      message: expect.stringContaining('was still starting after 10700 ms: ask again'),
      mayHaveBeenSent: false,
    })
  }
  const answer = ask('/', 10_700)
  open(gate)
  expect(await answer).toMatchObject({ statusCode: 200 })
  expect(thread.started).toBe(1)
  expect(errors).toEqual([])
})

test('a caller that blocks is told the same, and the thread is kept', async () => {
  const { thread, gate } = startThread()
  const { error } = failing(() => thread.send(question('/'), 20).result())
  expect(error.message).toContain('was still starting after 20 ms')
  open(gate)
  expect(thread.send(question('/'), 60_000).result()).toMatchObject({ statusCode: 200 })
  const never = failing(thread.send(question('/never'), 20).result).error
  expect(never.message).toContain('the enclave did not answer within 20 ms: allow')
  expect(thread.send(question('/'), 60_000).result()).toMatchObject({ statusCode: 200 })
  expect(thread.started).toBe(1)
})

test('a thread that does not get ready at all is given up, whether it is asked or not', async () => {
  const { thread, ask } = start()
  const asked = failureOf(ask('/', 2 * MAX_START))
  await jest.advanceTimersByTimeAsync(MAX_START)
  const rule = `the enclave's thread was still starting after ${MAX_START} ms and was ended; the next request starts another`
  expect(await asked).toMatchObject({
    message: expect.stringContaining(rule),
    mayHaveBeenSent: false,
  })
  expect(thread.failure).toContain(rule)
  expect(errors).toEqual([expect.stringContaining(rule)])
  const next = ask('/', 1000)
  expect(thread.started).toBe(2)
  open((started[0] as { gate: Int32Array }).gate)
  expect(await next).toMatchObject({ statusCode: 200 })
})

test('the next thread may start slowly, too, and never at all: the present one goes on', async () => {
  const { thread, gate, ask } = start(2)
  open(gate)
  await ask('/', 1000)
  Atomics.store(gate, 0, 0)
  await ask('/', 1000)
  expect(thread.started).toBe(2)
  await jest.advanceTimersByTimeAsync(MAX_START - 1)
  await ask('/', 1000)
  expect(thread.started).toBe(2)
  await jest.advanceTimersByTimeAsync(1)
  expect(thread.failure).toContain('was still starting')
  // It is tried again.
  await ask('/', 1000)
  expect(thread.started).toBe(3)
})

test('a thread that gives a sign of life is kept: the question alone fails', async () => {
  const { thread, gate, ask } = start()
  open(gate)
  await thread.whenReady()
  const other = ask('/never', 50_000)
  other.catch(() => undefined)
  for (let times = 1; times <= 3; times++) {
    const slow = failureOf(ask('/never', 1000))
    await jest.advanceTimersByTimeAsync(1000)
    expect((await slow).message).toContain('the enclave did not answer within 1000 ms: allow')
  }
  expect(await ask('/', 1000)).toMatchObject({ statusCode: 200 })
  expect(await Promise.race([other, 'open'])).toBe('open')
  expect(thread.started).toBe(1)
  expect(errors).toEqual([])
})

test('a thread that gives no sign of life is replaced', async () => {
  const { thread, gate, ask } = start()
  open(gate)
  await thread.whenReady()
  const hung = failureOf(ask('/block', 1000))
  await jest.advanceTimersByTimeAsync(1999)
  expect(thread.started).toBe(1)
  expect(errors).toEqual([])
  await jest.advanceTimersByTimeAsync(1)
  expect((await hung).message).toContain('did not answer within 1000 ms and was ended')
  expect(await ask('/', 1000)).toMatchObject({ statusCode: 200 })
  expect(thread.started).toBe(2)
  // It can't end by itself.
  await jest.advanceTimersByTimeAsync(400)
})

test.each(['nobody asks for', 'the caller no longer wants'])(
  'a question whose answer %s ends at its limit, so that its thread can retire',
  async whose => {
    const { thread, gate, ask } = start(1)
    open(gate)
    await thread.whenReady()
    const caller = new AbortController()
    const options = { awaitsOutcome: true, signal: caller.signal }
    const forgotten = thread.send(question('/never'), 5000, options)
    if (whose !== 'nobody asks for') caller.abort()
    while (thread.started < 2) await new Promise(setImmediate)
    await ask('/', 1000)
    await jest.advanceTimersByTimeAsync(5000)
    // The gate says how the thread with that question has ended.
    await exitCode(gate)
    expect(failing(forgotten.result).error.message).toContain('did not answer within 5000 ms')
  },
)

test('a thread that is closed while it starts is left to end by itself, and not waited for', async () => {
  const { thread, gate, ask } = start()
  const waiting = failureOf(ask('/', 10_000))
  const ended = thread.end(closed)
  expect(await waiting).toBe(closed)
  await jest.advanceTimersByTimeAsync(800)
  await ended
  await jest.advanceTimersByTimeAsync(MAX_START - 1000)
  expect(Atomics.load(gate, 1)).toBe(0)
  open(gate)
  expect(await exitCode(gate)).toBe(0)
})

test('an answer that came in time is there for those who ask late', async () => {
  const { thread, gate } = start()
  open(gate)
  await thread.whenReady()
  const [one, other] = [thread.send(question('/'), 1000), thread.send(question('/'), 1000)]
  const late = one.resultAsync()
  // The event loop stands still until both answers are there and the time is up: nothing is heard meanwhile.
  for (let seen = 0; seen < 2; seen = Atomics.load(gate, 2)) Atomics.wait(gate, 2, seen)
  jest.advanceTimersByTime(5000)
  expect(await late).toMatchObject({ statusCode: 200 })
  expect(other.result()).toMatchObject({ statusCode: 200 })
  expect(thread.started).toBe(1)
})

test('a thread that ended while nobody looked is replaced', async () => {
  const { thread, gate } = start()
  open(gate)
  await thread.whenReady()
  const lost = thread.send(question('/exit'), 1000)
  // The event loop stands still meanwhile: no event says that it ended.
  Atomics.wait(gate, 1, 0)
  const next = thread.send(question('/'), 1000)
  expect(failing(lost.result).error.message).toContain(
    'thread ended: exit code 3; the next request',
  )
  expect(await next.resultAsync()).toMatchObject({ statusCode: 200 })
  expect(thread.started).toBe(2)
})

test('a caller that blocks the event loop gets new threads as well', () => {
  const { thread, gate } = startThread(2)
  const ask = (): unknown =>
    (thread.send(question('/'), 60_000).result() as { threadId: number }).threadId
  open(gate)
  const first = ask()
  Atomics.store(gate, 0, 0)
  expect([ask(), ask()]).toEqual([first, first])
  open(gate)
  Atomics.wait(gate, 3, 1)
  expect(ask()).not.toBe(first)
})

describe('after a quiet while', () => {
  const QUIET = 60_000

  test('a thread is replaced, once', async () => {
    const { thread, gate, ask } = start(1000, QUIET)
    open(gate)
    await jest.advanceTimersByTimeAsync(QUIET)
    // One that was never asked holds nothing.
    expect(thread.started).toBe(1)
    await ask('/', 1000)
    await jest.advanceTimersByTimeAsync(QUIET - 1)
    expect(thread.started).toBe(1)
    await jest.advanceTimersByTimeAsync(1)
    expect(thread.started).toBe(2)
    await exitCode(gate)
    await jest.advanceTimersByTimeAsync(3 * QUIET)
    expect(thread.started).toBe(2)
    expect(thread.send(question('/'), 1000).result()).toMatchObject({ statusCode: 200 })
  })

  test('a thread is not replaced while a request is open, however quiet it is', async () => {
    const { thread, gate, ask } = start(1000, QUIET)
    open(gate)
    await thread.whenReady()
    const held = failureOf(ask('/never', 3 * QUIET))
    await jest.advanceTimersByTimeAsync(3 * QUIET - 1)
    expect(thread.started).toBe(1)
    await jest.advanceTimersByTimeAsync(1)
    await held
  })
})
