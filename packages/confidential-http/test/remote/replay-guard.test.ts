import { expect, test } from '@jest/globals'
import { MAX_SKEW, ReplayGuard } from '../../remote/callers.js'
import type { Rejection } from '../../remote/protocol.js'

const tooMany = 'this caller has sent 100000 requests within 60 s, and no more are taken'
const wrongTime =
  "the request was issued more than 30 s before or after the enclave's time: are both clocks right?"

/** Why a request is refused; undefined where it is let through. */
function refusal(
  guard: ReplayGuard,
  id: string,
  issuedAt: number,
  caller = 'caller',
): string | undefined {
  try {
    guard.check(caller, id, issuedAt)
    return undefined
  } catch (thrown) {
    const { status, message } = thrown as Rejection
    expect(status).toBe(message === tooMany ? 503 : 409)
    return message
  }
}

/** What a refusal says of it. */
function sent(guard: ReplayGuard, id: string, issuedAt: number): boolean {
  try {
    guard.check('caller', id, issuedAt)
  } catch (thrown) {
    return (thrown as Rejection).mayHaveBeenSent
  }
  throw new Error('it was not refused')
}

/** A guard that was made a minute ago, and its clock. */
function setUp() {
  const clock = { time: 1_000_000 }
  const guard = new ReplayGuard(() => clock.time)
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
  expect(refusal(guard, 'a', clock.time + skew)).toBe(wrongTime)
})

test('lets one through that was issued before the guard was made: it can only be opened at this start', () => {
  const clock = { time: 1_000_000 }
  const guard = new ReplayGuard(() => clock.time)
  expect(refusal(guard, 'a', clock.time - MAX_SKEW)).toBeUndefined()
})

test.each([60_001, 90_000, 86_400_000])(
  'lets none through again where the clock goes forward by %d ms and is set back',
  step => {
    const { guard, clock } = setUp()
    const issuedAt = clock.time + 20_000
    expect(refusal(guard, 'a', issuedAt)).toBeUndefined()
    clock.time += step
    expect(refusal(guard, 'b', clock.time)).toBeUndefined()
    clock.time -= step
    expect(refusal(guard, 'a', issuedAt)).toBeDefined()
    // What is issued from then on is good again.
    clock.time += 20_001
    expect(refusal(guard, 'c', clock.time)).toBeUndefined()
  },
)

test('says that nothing was sent only of what it can neither have let through nor will', () => {
  const { guard, clock } = setUp()
  expect(sent(guard, 'old', clock.time - MAX_SKEW - 1)).toBe(false)
  // Said to be too old while the clock was ahead: it stays refused when it is set back.
  clock.time += 100_000
  expect(sent(guard, 'early', clock.time - 50_000)).toBe(false)
  clock.time -= 40_000
  expect(sent(guard, 'early', clock.time - 10_000)).toBe(false)

  clock.time += 100_000
  const future = clock.time + MAX_SKEW + 1000
  expect(sent(guard, 'future', future)).toBe(true)
  clock.time += 1000
  expect(refusal(guard, 'future', future)).toBeUndefined()
  expect(sent(guard, 'future', future)).toBe(true)
  // Forgotten, it may have been carried out all the same.
  clock.time += 2 * MAX_SKEW + 1
  expect(sent(guard, 'future', future)).toBe(true)
})

test('remembers a hundred thousand of a caller and refuses more of it alone, until the first are forgotten', () => {
  const { guard, clock } = setUp()
  for (let id = 0; id < 100_000; id++) refusal(guard, String(id), clock.time)
  expect(refusal(guard, 'one more', clock.time)).toBe(tooMany)
  expect(refusal(guard, '0', clock.time, 'other')).toBeUndefined()
  expect(refusal(guard, '0', clock.time, 'other')).toBe('the request was seen before')
  clock.time += 2 * MAX_SKEW + 1
  // Another caller's request has them forgotten, too.
  expect(refusal(guard, '1', clock.time, 'other')).toBeUndefined()
  let refused = 0
  for (let id = 0; id < 100_000; id++)
    if (refusal(guard, `new ${id}`, clock.time) !== undefined) refused++
  expect(refused).toBe(0)
  expect(refusal(guard, 'one more', clock.time)).toBe(tooMany)
})
