// Worlds that random ones have led to, as small as they could be made.
import { build, type NamedWorld, publishRow, sent, stored, T } from './named-worlds.js'
import { START } from './world.js'

const longestFirst: NamedWorld = {
  name: 'the longest range begins before the first report',
  pages: 8,
  world: build(builder => {
    builder.publish(0, 2000, { from: T + 1, to: T + 2 }, sent)
    builder.publish(0, 4000, { from: T + 3, to: T + 4 }, stored)
    builder.publish(0, 6000, { from: T + 6 - 299, to: T + 6 }, sent)
    publishRow(builder, { count: 10, first: 8 })
    return {}
  }),
}

const aheadAtOutage: NamedWorld = {
  name: 'a report is four minutes ahead, and an outage begins and ends before and after its time',
  pages: 40,
  world: build(builder => {
    publishRow(builder, { count: 10 })
    builder.publish(0, 22_000, { from: T + 21, to: T + 262 }, sent)
    publishRow(builder, {
      count: 140,
      first: 24,
      fate: index => (index >= 9 && index < 123 ? stored : sent),
      made: index => (index === 0 ? { from: T + 21 } : {}),
    })
    publishRow(builder, { count: 10, first: 304 })
    builder.happen({ type: 'down', at: 41_000, origin: 0 })
    builder.happen({ type: 'up', at: 269_000, origin: 0 })
    return {}
  }),
}

const lateAbove: NamedWorld = {
  name: 'after an outage of a feed that does not link, the last but one is stored seven seconds late',
  pages: 40,
  world: build(builder => {
    const made = (_: number, time: number) => ({ from: T + time })
    publishRow(builder, {
      count: 31,
      made,
      fate: index => (index === 29 ? { storedAfter: 7000, sent: [] } : sent),
    })
    publishRow(builder, { count: 5, first: 100, made })
    builder.happen({ type: 'down', at: 41_000, origin: 0 })
    builder.happen({ type: 'up', at: 62_500, origin: 0 })
    return {}
  }),
}

const namedOnPage: NamedWorld = {
  name: 'a fetched report names a predecessor before one that was ahead',
  pages: 40,
  world: build(builder => {
    publishRow(builder, { count: 10 })
    builder.publish(0, 22_000, { from: T + 21, to: T + 82 }, sent)
    publishRow(builder, {
      count: 28,
      first: 24,
      made: index => (index === 0 ? { from: T + 21 } : {}),
    })
    builder.publish(0, 80_000, { from: T + 79, to: T + 80 }, stored)
    builder.publish(0, 84_000, { from: T + 81, to: T + 84 }, stored)
    publishRow(builder, { count: 10, first: 86 })
    return {}
  }),
}

const sharedPage: NamedWorld = {
  name: 'after an outage, a full page of an earlier range holds more than was seen before',
  pages: 20,
  world: build(
    builder => {
      const from = START + 1000
      for (let index = 0; index < 320; index++) {
        const to = from + 50 * index
        const digest = index < 170 ? 0 : 1
        // The first report of another configuration overlaps with the last one.
        const made = { from: to - (index === 170 ? 80 : 49), to, digest }
        const at = 1000 + 50 * index
        builder.publish(0, at, made, { storedAfter: 20, sent: [{ origin: 0, after: 20 }] })
      }
      builder.happen({ type: 'down', at: 10_000, origin: 0 })
      builder.happen({ type: 'up', at: 17_000, origin: 0 })
      const last = from + 50 * 319
      const made = { from: last + 1, to: last + 9000, digest: 1 }
      builder.publish(0, 1000 + last + 9000 - from, made, sent)
      return {}
    },
    [1000],
  ),
}

const longestBehind: NamedWorld = {
  name: 'the longest range begins before the times that are known exactly',
  pages: 30,
  world: build(
    builder => {
      const from = START + 1000
      for (let index = 0; index < 1450; index++) {
        const to = from + 250 * index
        const begin = index === 1400 ? to - 299_999 : to - 249
        const fate = { storedAfter: 100, sent: [{ origin: 0, after: 20 }] }
        builder.publish(0, 1000 + 250 * index, { from: begin, to }, fate)
      }
      return {}
    },
    [1000],
  ),
}

const backAcrossStreams: NamedWorld = {
  name: 'a clock goes back an hour for good, and a stream continues from a cursor of the time before',
  pages: 40,
  world: build(builder => {
    publishRow(builder, { count: 20 })
    for (let index = 0; index < 40; index++) {
      const time = 42 + 2 * index
      const to = T + time - 3600
      const made = { from: index === 0 ? to : to - 1, to }
      builder.publish(0, time * 1000, made, index === 25 ? stored : sent)
    }
    builder.happen({ type: 'restart', at: 61_000, by: 'close', after: 0 })
    return {}
  }),
}

/** All of them. */
export const overlookedWorlds: readonly NamedWorld[] = [
  longestFirst,
  aheadAtOutage,
  lateAbove,
  namedOnPage,
  sharedPage,
  longestBehind,
  backAcrossStreams,
]
