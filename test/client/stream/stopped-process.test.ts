import { expect, test } from '@jest/globals'
import { Cursors } from '../../../client/stream/cursors.js'
import type { Report } from '../../../report/report.js'
import { startVirtualTime } from '../../../testing/virtual-time.js'

const feedID = `0x0003${'aa'.repeat(30)}`
const report = (time: number) =>
  ({ feedID, validFromTimestamp: time, observationsTimestamp: time }) as Report

test('a store that answered while the process was stopped is not blamed; one that is slow is', async () => {
  const time = startVirtualTime()
  try {
    const errors: string[] = []
    let answerAfter = 100
    const cursors = new Cursors({
      store: {
        load: async () => ({ [feedID]: 100 }),
        save: () => new Promise(resolve => time.outside(answerAfter, resolve)),
      },
      now: Date.now,
      failed: ({ message }) => void errors.push(message),
    })
    await cursors.load()
    cursors.acknowledged(report(101))
    // The save has begun.
    await time.pass(50)
    await time.stop(20_000)
    await time.pass(100)
    expect(errors).toEqual([])
    answerAfter = 15_000
    cursors.acknowledged(report(102))
    await time.pass(30_000)
    expect(errors).toEqual(['cursors could not be saved for 10 s, and the next save waits for it'])
    const ended = cursors.flush()
    await time.pass(100)
    await ended
  } finally {
    time.end()
  }
})
