import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createDeferred } from 'sluice/core'
import { ReadBudget } from '../../gateway/budget.js'
import { Turns } from '../../gateway/turns.js'

const settled = () => new Promise(resolve => setImmediate(resolve))

test('a holder with many queries delays another holder by none of those that wait', async () => {
  const turns = new Turns(4, new ReadBudget(2000))
  const order: string[] = []
  const running: (() => void)[] = []
  const messages: readonly number[] = []
  const take = (name: string): void =>
    void turns.take(name, () => {
      order.push(name)
      const { promise, resolve } = createDeferred<readonly number[]>()
      running.push(() => resolve(messages))
      return promise
    })
  for (let count = 0; count < 100; count++) take('greedy')
  await settled()
  // Half of the room stays free for others.
  expect(order).toEqual(['greedy', 'greedy'])
  for (let count = 0; count < 3; count++) take('other')
  await settled()
  expect(order.slice(2)).toEqual(['other', 'other'])
  take('third')
  running.shift()?.()
  await settled()
  running.shift()?.()
  await settled()
  expect(order.slice(4)).toEqual(['greedy', 'third'])
})

test('a query that fails gives its turn back', async () => {
  const turns = new Turns(1, new ReadBudget(2000))
  const failing = turns.take('a', () => Promise.reject(new Error('no')))
  const next = turns.take('b', async () => ['answer'])
  await expect(failing).rejects.toThrow('no')
  expect(await next).toEqual(['answer'])
})

describe('holders that have read much', () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick'] }))
  afterEach(() => void jest.useRealTimers())

  const read = (turns: Turns, name: string, count: number) =>
    turns.take(name, async () => Array.from({ length: count }))

  test('share a slow queue, and delay no other', async () => {
    const turns = new Turns(4, new ReadBudget(1000))
    for (const name of ['one', 'two']) await read(turns, name, 400)
    let done = 0
    for (let at = 0; at < 4; at++) void read(turns, at % 2 ? 'one' : 'two', 100).then(() => done++)
    // The clock stands still, so this one waits for no pause.
    await read(turns, 'other', 10)
    await settled()
    // Each of the first three is followed by a pause of a tenth of a second.
    for (const count of [1, 2, 3]) {
      expect(done).toBe(count)
      jest.advanceTimersByTime(99)
      await settled()
      expect(done).toBe(count)
      jest.advanceTimersByTime(1)
      await settled()
    }
    expect(done).toBe(4)
  })

  test('are rejected, told when to come again, and have as much again then', async () => {
    const budget = new ReadBudget(1000)
    const turns = new Turns(4, budget)
    budget.check('one')
    await read(turns, 'one', 1500)
    expect(() => budget.check('one')).toThrow('the token has read too much of the log')
    expect(failure(() => budget.check('one'))).toMatchObject({
      status: 429,
      headers: { 'retry-after': '2' },
    })
    budget.check('other')
    jest.advanceTimersByTime(1300)
    budget.check('one')
  })
})

function failure(act: () => void): unknown {
  try {
    return act()
  } catch (thrown) {
    return thrown
  }
}
