import { expect, test } from '@jest/globals'
import { createDeferred } from 'sluice/core'
import { Turns } from '../../gateway/turns.js'

const settled = () => new Promise(resolve => setImmediate(resolve))

test('a holder with many queries delays another holder by none of those that wait', async () => {
  const turns = new Turns(4)
  const order: string[] = []
  const running: (() => void)[] = []
  const take = (name: string): void =>
    void turns.take(name, () => {
      order.push(name)
      const { promise, resolve } = createDeferred()
      running.push(resolve)
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
  const turns = new Turns(1)
  const failing = turns.take('a', () => Promise.reject(new Error('no')))
  const next = turns.take('b', async () => 'answer')
  await expect(failing).rejects.toThrow('no')
  expect(await next).toBe('answer')
})
