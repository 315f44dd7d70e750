require('./suite.cjs')({
  test,
  useFakeTimers: () => jest.useFakeTimers(),
  advance: ms => jest.advanceTimersByTime(ms),
  useRealTimers: () => jest.useRealTimers(),
})
