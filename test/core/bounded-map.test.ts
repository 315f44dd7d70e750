import { expect, test } from '@jest/globals'
import { BoundedMap } from '../../core/bounded-map.js'

test('of more entries than its bound, the one that was set longest ago goes', () => {
  const map = new BoundedMap<string, number>(2)
  map.set('a', 1).set('b', 2).set('a', 3).set('c', 4)
  expect([...map]).toEqual([
    ['a', 3],
    ['c', 4],
  ])
})
