import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import { durationMs, formatDuration, parseDuration } from '../../request/duration.js'

describe('parseDuration', () => {
  test.each([
    ['5s', 5n, 0],
    ['1.5s', 1n, 500_000_000],
    ['0.000000001s', 0n, 1],
    ['007s', 7n, 0],
    ['200ms', 0n, 200_000_000],
    ['1500ms', 1n, 500_000_000],
    ['0.5ms', 0n, 500_000],
    ['1m', 60n, 0],
    ['1.5m', 90n, 0],
    ['0.000000001m', 0n, 60],
    ['315576000000s', 315_576_000_000n, 0],
    [{ seconds: 10n, nanos: 0 }, 10n, 0],
    [{ seconds: '10', nanos: 0 }, 10n, 0],
    [{ seconds: 10 }, 10n, 0],
    [{ nanos: 7 }, 0n, 7],
    [{ $typeName: 'google.protobuf.Duration', seconds: 1n, nanos: 999_999_999 }, 1n, 999_999_999],
  ])('%p', (given, seconds, nanos) => {
    expect(parseDuration('timeout', given)).toStrictEqual({
      $typeName: 'google.protobuf.Duration',
      seconds,
      nanos,
    })
  })

  const form =
    'timeout must be a number of at most 9 decimals and its unit, such as 5s, 1.5s, 200ms or 1m'
  const positive = 'timeout must be more than 0'
  test.each([
    ['', form],
    ['5', form],
    ['s', form],
    ['.5s', form],
    ['1.s', form],
    [' 5s', form],
    ['5s ', form],
    ['5s\n', form],
    ['5sxyz', form],
    ['5S', form],
    ['1h', form],
    ['1e3s', form],
    ['+5s', form],
    ['1m30s', form],
    ['1.0000000001s', form],
    [`${'9'.repeat(1000)}s`, form],
    ['0.0000001ms', 'timeout must be in whole nanoseconds'],
    ['0s', positive],
    ['0.000ms', positive],
    ['-5s', positive],
    ['-0.5s', positive],
    [{}, positive],
    [{ seconds: 0n, nanos: 0 }, positive],
    [{ seconds: -1n }, positive],
    ['315576000001s', 'timeout must be at most 315576000000 seconds'],
    [{ seconds: 10n ** 40n }, 'timeout must be at most 315576000000 seconds'],
    [{ seconds: 1, nanos: 1_000_000_000 }, 'timeout.nanos must be 0 to 999999999'],
    [{ seconds: 1, nanos: -1 }, 'timeout.nanos must be 0 to 999999999'],
    [{ seconds: 1.5 }, 'timeout.seconds must be a whole number'],
    [{ seconds: Number.NaN }, 'timeout.seconds must be a whole number'],
    [{ seconds: '1.5' }, 'timeout.seconds must be a whole number, not string'],
    [{ seconds: true }, 'timeout.seconds must be a whole number, not boolean'],
    [{ minutes: 1 }, 'timeout.minutes is unknown: there is seconds, nanos'],
    [5, 'timeout must be a duration such as 5s or 200ms, not number'],
    [true, 'timeout must be a duration such as 5s or 200ms, not boolean'],
    [['5s'], 'timeout must be a plain object, not an array'],
  ])('refuses %p', (given, complaint) => {
    expect(() => parseDuration('timeout', given)).toThrow(new ValidationError(complaint))
  })
})

test.each([
  [5n, 0, '5s', 5000],
  [1n, 500_000_000, '1.500s', 1500],
  [0n, 1000, '0.000001s', 0.001],
  [0n, 1, '0.000000001s', 0.000001],
  [315_576_000_000n, 0, '315576000000s', 315_576_000_000_000],
])('%d seconds and %d nanoseconds are written %s and are %d ms', (seconds, nanos, text, ms) => {
  expect(formatDuration({ seconds, nanos })).toBe(text)
  expect(durationMs({ seconds, nanos })).toBe(ms)
})
