import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { TokenBucket } from 'sluice/internal'
import { CallerGuard, type CallerLimits } from '../../remote/callers.js'

function thrownBy(run: () => unknown): unknown {
  try {
    run()
  } catch (thrown) {
    return thrown
  }
  return undefined
}

describe('a token bucket', () => {
  test('never grants more than its capacity and its rate, whenever it is asked', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 2000 }), { maxLength: 60 }),
        fc.integer({ min: 1, max: 50 }),
        (pauses, rate) => {
          let time = 0
          const bucket = new TokenBucket(rate, rate, () => time)
          let granted = 0
          for (const pause of pauses) {
            time += pause
            if (bucket.msUntil(1) === 0) {
              bucket.spend(1)
              granted++
            }
            expect(granted).toBeLessThanOrEqual(rate + (rate * time) / 1000 + 1e-6)
          }
        },
      ),
    )
  })

  test('has what it says when the time is over', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5000 }),
        fc.double({ min: 0.01, max: 1000, noNaN: true }),
        (spent, rate) => {
          let time = 0
          const bucket = new TokenBucket(rate, Math.max(1, rate), () => time)
          bucket.spend(spent)
          time += bucket.msUntil(1)
          expect(bucket.msUntil(1)).toBeLessThanOrEqual(1)
        },
      ),
    )
  })
})

describe('the limits of a caller', () => {
  const guardOf = (limits: CallerLimits, clock: { now: number }) =>
    new CallerGuard(limits, () => clock.now)

  test('requests a second', () => {
    const clock = { now: 0 }
    const guard = guardOf({ requestsPerSecond: 4 }, clock)
    for (let count = 0; count < 4; count++) guard.enter('a', 1)(1)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({
      name: 'EnclaveError',
      code: 'RATE_LIMIT',
      message: 'this caller has reached its limit of 4 requests a second: ask again in 250 ms',
      retryAfter: 250,
      isRetryable: true,
      mayHaveBeenSent: false,
    })
    guard.enter('b', 1)(1)
    clock.now += 250
    guard.enter('a', 1)(1)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({ code: 'RATE_LIMIT' })
  })

  test('requests at once', () => {
    const guard = new CallerGuard({ requestsAtOnce: 2 })
    const leave = guard.enter('a', 1)
    guard.enter('a', 1)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({
      code: 'RATE_LIMIT',
      message: expect.stringContaining('its limit of 2 requests at once: ask again in 100 ms'),
    })
    guard.enter('b', 1)
    leave(0)
    guard.enter('a', 1)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({ code: 'RATE_LIMIT' })
  })

  test('bytes a second, of requests and answers, which a large one overspends', () => {
    const clock = { now: 0 }
    const guard = guardOf({ bytesPerSecond: 1000 }, clock)
    guard.enter('a', 400)(2600)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({ retryAfter: 2001 })
    clock.now += 2000
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({ retryAfter: 1 })
    clock.now += 1
    guard.enter('a', 1)
  })

  test('by default 64 at once, and no other', () => {
    const guard = new CallerGuard()
    for (let count = 0; count < 64; count++) guard.enter('a', 1e9)
    expect(thrownBy(() => guard.enter('a', 1))).toMatchObject({ code: 'RATE_LIMIT' })
  })

  test.each([
    [{ requestsPerSecond: 0 }, /^callerLimits\.requestsPerSecond must be/],
    [{ bytesPerSecond: Number.NaN }, /^callerLimits\.bytesPerSecond must be/],
    [{ requestsAtOnce: 1.5 }, /^callerLimits\.requestsAtOnce must be/],
    [{ atOnce: 1 }, /unknown option 'atOnce' of callerLimits/],
  ])('%j is refused', (limits, message) => {
    expect(() => new CallerGuard(limits as CallerLimits)).toThrow(message)
  })
})
