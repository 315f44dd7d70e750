import { mock, test } from 'node:test'
import * as official from '@chainlink/data-streams-sdk'
import * as sluice from 'sluice'
import suite from './suite.cjs'

const isFaked = process.env.TIMERS === 'faked'
suite({
  test,
  libraries: { sluice, official },
  fake: () => isFaked && mock.timers.enable({ now: Date.now() }),
  restore: () => mock.timers.reset(),
})
