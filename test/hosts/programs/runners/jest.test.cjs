const isFaked = process.env.TIMERS === 'faked'
require('./suite.cjs')({
  test,
  libraries: { sluice: require('sluice'), official: require('@chainlink/data-streams-sdk') },
  fake: () => isFaked && jest.useFakeTimers(),
  restore: () => jest.useRealTimers(),
})
