import { expect, test } from '@jest/globals'
import type { Refusal } from '../../confidential-http/remote/refusal.js'
import {
  createReplayGuard,
  MAX_SKEW,
  type ReplayGuard,
} from '../../confidential-http/remote/replay-guard.js'

/** Why a request is refused; undefined where it is let through. */
function refusal(guard: ReplayGuard, id: string, issuedAt: number): string | undefined {
  try {
    guard.check(id, issuedAt)
    return undefined
  } catch (thrown) {
    const { status, message } = thrown as Refusal
    expect(status).toBe(message === 'too many requests' ? 503 : 409)
    return message
  }
}

/** A guard that was made a minute ago, and its clock. */
function setUp() {
  const clock = { time: 1_000_000 }
  const guard = createReplayGuard(() => clock.time)
  clock.time += 60_000
  return { guard, clock }
}

test('lets an id through once', () => {
  const { guard, clock } = setUp()
  expect(refusal(guard, 'a', clock.time)).toBeUndefined()
  expect(refusal(guard, 'a', clock.time)).toBe('the request was seen before')
  expect(refusal(guard, 'b', clock.time)).toBeUndefined()
})

test.each([-MAX_SKEW, 0, MAX_SKEW])(
  'remembers one that is issued %d ms from now for as long as it is good',
  skew => {
    const { guard, clock } = setUp()
    const issuedAt = clock.time + skew
    expect(refusal(guard, 'a', issuedAt)).toBeUndefined()
    for (const end = clock.time + 3 * MAX_SKEW; clock.time <= end; clock.time += 500) {
      refusal(guard, `other at ${clock.time}`, clock.time)
      expect(refusal(guard, 'a', issuedAt)).toBeDefined()
    }
  },
)

test.each([-MAX_SKEW - 1, MAX_SKEW + 1])('refuses one that is issued %d ms from now', skew => {
  const { guard, clock } = setUp()
  expect(refusal(guard, 'a', clock.time + skew)).toBe(
    "the request was issued more than 30 s before or after the enclave's time",
  )
})

test('refuses one that was issued before the guard was made, which another may have let through', () => {
  const clock = { time: 1_000_000 }
  const guard = createReplayGuard(() => clock.time)
  expect(refusal(guard, 'a', clock.time - 1)).toBe(
    'the request was issued before the enclave started',
  )
  expect(refusal(guard, 'a', clock.time)).toBeUndefined()
})

test('remembers a hundred thousand and refuses more, until the first are forgotten', () => {
  const { guard, clock } = setUp()
  for (let id = 0; id < 100_000; id++) refusal(guard, String(id), clock.time)
  expect(refusal(guard, 'one more', clock.time)).toBe('too many requests')
  clock.time += 2 * MAX_SKEW + 1
  expect(refusal(guard, 'one more', clock.time)).toBeUndefined()
})
