import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { planShards, shardCapacity, streamURL } from '../../../../client/stream/shards/plan.js'

const ids = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => `feed ${from + index}`)
const shard = (feedIDs: readonly string[]) => ({ feedIDs })
const feedID = `0x${'ab'.repeat(32)}`

describe('the feeds of one connection', () => {
  test('fit into a URL with a path and query of 7500 characters', () => {
    for (const base of ['wss://host', 'wss://host/a/long/path/in/front/of/it']) {
      const capacity = shardCapacity([base])
      const { pathname, search } = new URL(
        streamURL(
          base,
          Array.from({ length: capacity }, () => feedID),
        ),
      )
      expect(pathname.length + search.length).toBeLessThanOrEqual(7500)
      expect(pathname.length + search.length).toBeGreaterThan(7500 - 67)
    }
  })

  test('are as few as the longest of several URLs can hold', () => {
    const long = `wss://host/${'p'.repeat(1000)}`
    expect(shardCapacity(['wss://host', long])).toBe(shardCapacity([long]))
    expect(shardCapacity(['wss://host', long])).toBeLessThan(shardCapacity(['wss://host']))
  })
})

describe('a plan', () => {
  test('spreads feeds over as few connections as can hold them', () => {
    expect(planShards([], ids(25), 10, 16)).toEqual([
      { from: undefined, to: ids(10) },
      { from: undefined, to: ids(10, 10) },
      { from: undefined, to: ids(5, 20) },
    ])
  })

  test('fills what has room before it adds another, and touches nothing else', () => {
    const shards = [shard(ids(10)), shard(ids(8, 10)), shard(ids(10, 20))]
    const all = shards.flatMap(({ feedIDs }) => feedIDs)
    expect(planShards(shards, [...all, 'x'], 10, 16)).toEqual([
      { from: shards[1], to: [...ids(8, 10), 'x'] },
    ])
    expect(planShards(shards, [...all, 'x', 'y', 'z'], 10, 16)).toEqual([
      { from: shards[1], to: [...ids(8, 10), 'x', 'y'] },
      { from: undefined, to: ['z'] },
    ])
  })

  test('leaves out what is no longer wanted, and connections that carry nothing', () => {
    const shards = [shard(['a', 'b']), shard(['c']), shard(['d'])]
    expect(planShards(shards, ['a', 'd'], 2, 16)).toEqual([
      { from: shards[0], to: ['a'] },
      { from: shards[1], to: [] },
    ])
    expect(planShards(shards, ['a', 'b', 'c', 'd'], 2, 16)).toEqual([])
  })

  test('for more than sixteen connections is refused with the numbers', () => {
    expect(planShards([], ids(160), 10, 16)).toHaveLength(16)
    expect(() => planShards([], ids(161), 10, 16)).toThrow(
      /161 feeds need 17 connections of 10 feeds/,
    )
  })

  test('carries exactly what is wanted, whatever was before', () => {
    const names = fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { maxLength: 40 })
    fc.assert(
      fc.property(names, names, fc.integer({ min: 4, max: 9 }), (before, wanted, capacity) => {
        const shards = planShards([], before.map(String), capacity, 16).map(({ to }) => shard(to))
        const changes = planShards(shards, wanted.map(String), capacity, 16)
        const left = shards.filter(each => !changes.some(({ from }) => from === each))
        const carried = [...left.map(({ feedIDs }) => feedIDs), ...changes.map(({ to }) => to)]
        expect(carried.flat().sort()).toEqual(wanted.map(String).sort())
        for (const each of carried) expect(each.length).toBeLessThanOrEqual(capacity)
        for (const { from, to } of changes) expect(to).not.toEqual(from?.feedIDs)
      }),
    )
  })
})
