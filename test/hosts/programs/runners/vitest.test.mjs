import * as official from '@chainlink/data-streams-sdk'
import * as sluice from 'sluice'
import { test, vi } from 'vitest'
import suite from './suite.cjs'

const isFaked = process.env.TIMERS === 'faked'
// All but what fetch itself runs on, queueMicrotask and process.nextTick: without them no request of anybody ends.
const toFake = [
  ...['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'],
  ...['clearImmediate', 'Date', 'performance'],
]
suite({
  test,
  libraries: { sluice, official },
  fake: () => isFaked && vi.useFakeTimers({ toFake }),
  restore: () => vi.useRealTimers(),
})
