import { afterEach, expect, jest, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { askService, type Facts, type Service } from '../../thread/serve-thread.js'

afterEach(() => void jest.useRealTimers())

const never = new Promise<never>(() => undefined)
const question = {
  type: 'secrets',
  names: [{ namespace: 'main', key: 'k' }],
  timeout: 5000,
} as const

test('secrets that no holder releases end in the thread, so that it is not taken for dead', async () => {
  jest.useFakeTimers()
  const signals: AbortSignal[] = []
  const service = {
    secrets(_names: unknown, signal: AbortSignal) {
      signals.push(signal)
      return never
    },
  } as unknown as Service
  const caller = new AbortController()
  const facts: Facts = {
    startedAt: Date.now() - 1000,
    signal: caller.signal,
    onConnected: () => undefined,
  }
  const late = failureOf(askService(service, question, facts))
  await jest.advanceTimersByTimeAsync(3999)
  expect(signals[0]?.aborted).toBe(false)
  await jest.advanceTimersByTimeAsync(1)
  expect(await late).toMatchObject({
    name: 'VaultError',
    message: 'the vault did not release its secrets within 5000 ms',
    mayHaveBeenSent: false,
  })
  // The holders are asked no longer.
  expect(signals[0]?.aborted).toBe(true)

  const cancelled = failureOf(askService(service, question, facts))
  caller.abort(new Error('cancelled'))
  expect((await cancelled).message).toBe('cancelled')
  expect(jest.getTimerCount()).toBe(0)
})
