import { test, vi } from 'vitest'
import suite from './suite.cjs'

suite({
  test,
  useFakeTimers: () => vi.useFakeTimers(),
  advance: ms => vi.advanceTimersByTime(ms),
  useRealTimers: () => vi.useRealTimers(),
})
