import { describe, expect, test } from '@jest/globals'
import { createFlowControl } from '../../../../client/stream/connection/flow-control.js'
import { createReportIterator } from '../../../../client/stream/queue/iterator.js'
import { createReportQueue } from '../../../../client/stream/queue/queue.js'
import type { Report } from '../../../../report/report.js'
import { failureOf } from '../../../support/waiting.js'

const feedID = `0x0003${'aa'.repeat(30)}`

/** An iterator over three queued reports, and the times of those that counted as consumed. */
function open() {
  const consumed: number[] = []
  const ignore = () => undefined
  const queue = createReportQueue({
    size: 10,
    overflow: 'block',
    flowControl: createFlowControl(),
    slow: ignore,
    dropped: ignore,
    gap: ignore,
    consumed: report => void consumed.push(report.observationsTimestamp),
    overflowed: ignore,
  })
  for (const time of [1, 2, 3])
    queue.push({ feedID, validFromTimestamp: time, observationsTimestamp: time } as Report)
  const iterator = createReportIterator(queue.createReader(), ignore, async () => queue.end())
  return { iterator, consumed, queue }
}

describe('a report had from an iteration', () => {
  test('does not count as consumed when the loop is left with it, as those before it do', async () => {
    const { iterator, consumed, queue } = open()
    for await (const report of iterator) if (report.observationsTimestamp === 2) break
    await iterator.return?.()
    expect(consumed).toEqual([1])
    expect(queue.length).toBe(0)
  })

  test('does not when the body throws, so that it comes again', async () => {
    const { iterator, consumed } = open()
    const loop = (async () => {
      for await (const _ of iterator) throw new Error('mine')
    })()
    expect((await failureOf(loop)).message).toBe('mine')
    expect(consumed).toEqual([])
  })

  test('does not when the iterator is told to throw', async () => {
    const { iterator, consumed } = open()
    await iterator.next()
    await failureOf(iterator.throw?.(new Error('mine')) as Promise<unknown>)
    expect(consumed).toEqual([])
  })
})
