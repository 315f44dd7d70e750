import { expect, test } from '@jest/globals'
import { ServiceClock } from '../../../plugins/hmac-auth/keyring.js'

const HOUR = 3_600_000

/** A clock at this time, and a service whose `Date` is cut to seconds. */
function setUp(machine: number) {
  const lines: string[] = []
  const log = { info: (line: string) => void lines.push(line) }
  const time = { machine }
  const clock = new ServiceClock(() => time.machine)
  return {
    clock,
    lines,
    time,
    /** A request that is rejected at the service's time, after so many milliseconds, and accepted as it is signed then. */
    refuse(service: number, took = 0) {
      const moment = { ...clock.read(), since: performance.now() - took }
      clock.confirm(clock.offsetAfter(moment, Math.floor(service / 1000) * 1000), log)
    },
    offset: () => clock.read().offset,
    /** The time that is signed now. */
    signed: () => clock.read().at + clock.read().offset,
  }
}

test.each([30_000, -30_000, 6000, -6000, 24 * HOUR - 1000, -24 * HOUR + 1000])(
  'a clock that is %d ms ahead is corrected to half a second',
  ahead => {
    const { refuse, signed, lines } = setUp(1e12 + ahead)
    refuse(1e12 + 700)
    expect(Math.abs(signed() - 1e12)).toBeLessThanOrEqual(501)
    expect(lines).toEqual([
      expect.stringMatching(
        ahead > 0
          ? /^this machine's clock is \d+ s ahead of the service's: requests are signed by the service's$/
          : /^this machine's clock is \d+ s behind the service's: requests are signed by the service's$/,
      ),
    ])
  },
)

test.each([0, 1400, 2400, -1400])('a clock that is %d ms ahead is left as it is', ahead => {
  const { offset, refuse, lines } = setUp(1e12 + ahead)
  refuse(1e12)
  expect(offset()).toBe(0)
  expect(lines).toEqual([])
})

test.each([24 * HOUR + 5000, -24 * HOUR - 5000, 50 * 365 * 24 * HOUR])(
  'a clock that is %d ms ahead is not followed',
  ahead => {
    const { offset, refuse, lines } = setUp(1e12 + ahead)
    refuse(1e12)
    expect(offset()).toBe(0)
    expect(lines).toEqual([])
  },
)

test('the bound of a day holds for all corrections together', () => {
  const { offset, refuse } = setUp(1e12)
  refuse(1e12 + 20 * HOUR)
  expect(offset()).toBe(20 * HOUR + 500)
  refuse(1e12 + 40 * HOUR)
  expect(offset()).toBe(20 * HOUR + 500)
})

test.each([0, 6000, 12_000])(
  'an answer that took 12 s, and was made after %d ms of them, does not change the clock',
  after => {
    const { offset, refuse } = setUp(1e12)
    refuse(1e12 + after, 12_000)
    expect(offset()).toBe(0)
  },
)

test('an answer without a time does not change the clock', () => {
  const { clock } = setUp(1e12)
  expect(clock.offsetAfter(clock.read(), undefined)).toBe(0)
})

test('a clock that is set right is used again', () => {
  const { offset, refuse, time, lines } = setUp(1e12 + 30_000)
  refuse(1e12)
  expect(offset()).not.toBe(0)
  time.machine = 1e12
  refuse(1e12)
  expect(offset()).toBe(0)
  expect(lines[1]).toMatch(/clock agrees with the service's again/)
})

test('an attempt that was signed before the correction and rejected is signed with the correction', () => {
  const { clock, time, lines } = setUp(1e12 + 30_000)
  const log = { info: (line: string) => void lines.push(line) }
  const [one, other] = [clock.read(), clock.read()]
  const right = clock.offsetAfter(one, 1e12)
  expect(clock.read().offset).toBe(0)
  clock.confirm(right, log)
  time.machine += 7000
  expect(clock.offsetAfter(other, 1e12)).toBe(right)
  expect(lines).toHaveLength(1)
})

test.each([Number.NaN, Number.POSITIVE_INFINITY, -1])(
  'a clock of %p is rejected by name',
  machine => {
    const { clock } = setUp(machine)
    expect(() => clock.read()).toThrow(/now must/)
  },
)

test('a clock that counts fractions is read in whole milliseconds', () => {
  const { signed } = setUp(1e12 + 0.25)
  expect(signed()).toBe(1e12)
})
