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

const backWithMachine: NamedWorld = {
  name: 'a clock goes back an hour and the clock of the machine with it, and another feed loses reports',
  pages: 60,
  world: build(
    builder => {
      publishRow(builder, { count: 40, step: 1, first: 1 })
      publishRow(builder, {
        count: 150,
        step: 1,
        first: 51,
        // Before the feed is known to be ahead, and after.
        fate: index => ([14, 40, 41, 120].includes(index) ? stored : sent),
      })
      for (let time = 1; time < 201; time++) {
        const to = T + time - (time < 42 ? 0 : 3600)
        builder.publish(1, time * 1000, { from: to, to }, sent)
      }
      return { clocks: { error: -3_600_000, at: 40_500, sleep: 0, date: undefined } }
    },
    [1, 1],
  ),
}

const aheadOfCursor: NamedWorld = {
  name: 'a stream continues from a cursor an hour ahead of its clock, and has an outage behind it',
  pages: 40,
  world: build(
    builder => {
      publishRow(builder, {
        count: 150,
        step: 1,
        fate: index => (index >= 80 && index < 130 ? stored : sent),
      })
      for (let time = 2; time < 152; time++) {
        const to = T + time - (time < 60 ? 0 : 3600)
        builder.publish(1, time * 1000, { from: to, to }, sent)
      }
      builder.happen({ type: 'restart', at: 82_500, by: 'failure', after: 45_000 })
      return { clocks: { error: -3_600_000, at: 40_000, sleep: 0, date: undefined } }
    },
    [1, 1],
  ),
}

const backBehindExact: NamedWorld = {
  name: 'a clock goes back an hour after 700 reports, and one is ten seconds ahead of the others',
  pages: 60,
  world: build(builder => {
    publishRow(builder, { count: 700, step: 1 })
    let last = T + 702 - 3600
    for (let time = 704; time < 800; time += 2) {
      const to = T + time - 3600
      if (time === 720) builder.publish(0, 720_000, { from: last + 1, to: to + 9 }, sent)
      else {
        const fate = time === 724 ? stored : sent
        builder.publish(0, time * 1000, { from: last + 1, to }, fate)
        last = to
      }
    }
    return {}
  }),
}

const manyRanges: NamedWorld = {
  name: 'two networks publish a feed, and a stream continues with 1,500 reports at once',
  pages: 160,
  hasFalseClaim: true,
  world: build(
    builder => {
      const from = START + 1000
      const row = Array.from({ length: 1700 }, (_, index) => {
        const to = from + 100 * index
        // Two in a row are lost, so that the next one names a predecessor.
        const isLost = index % 20 === 4 || index % 20 === 5
        const made = { from: to - 199, to, digest: index % 2 }
        const fate = { storedAfter: 100, sent: isLost ? [] : [{ origin: 0, after: 20 }] }
        return [builder.publish(0, 1000 + 100 * index, made, fate), isLost] as const
      })
      builder.happen({ type: 'restart', at: 10_000, by: 'close', after: 155_000 })
      for (const [observation, isLost] of row.slice(90, 1640))
        if (!isLost) builder.happen({ type: 'report', at: 165_500, observation, origin: 0 })
      return {}
    },
    [1000],
  ),
}

const storedAfterNext: NamedWorld = {
  name: 'a feed that is two hours behind has one report ahead, and the service stores one after the next',
  pages: 60,
  world: build(builder => {
    for (let index = 0; index < 40; index++) {
      const back = index < 5 ? 0 : 7200
      const to = T + 2 + 2 * index - back + (index === 10 ? 240 : 0)
      const isSent = index <= 10 || index > 20
      const storedAfter = index === 18 ? 5000 : 100
      const fate = { storedAfter, sent: isSent ? sent.sent : [] }
      builder.publish(0, 2000 + 2000 * index, { from: to, to }, fate)
    }
    return {}
  }),
}

const manyAhead: NamedWorld = {
  name: 'ten reports that are ahead wait for their time, and a stream ends',
  pages: 40,
  world: build(builder => {
    publishRow(builder, { count: 10, step: 1 })
    for (let index = 0; index < 10; index++) {
      const to = T + 600 + 10 * index
      builder.publish(0, 11_200 + index, { from: to, to }, sent)
    }
    publishRow(builder, {
      count: 20,
      step: 1,
      first: 12,
      fate: index => (index === 2 ? stored : sent),
    })
    builder.happen({ type: 'restart', at: 14_200, by: 'failure', after: 500 })
    return {}
  }),
}

const datesAhead: NamedWorld = {
  name: 'dates are an hour ahead, and a report of an outage is dated after its end',
  pages: 60,
  hasFalseClaim: true,
  world: build(builder => {
    const made = (_: number, time: number) => ({ from: T + time })
    publishRow(builder, { count: 20, made })
    publishRow(builder, { count: 60, first: 42, made, fate: () => stored })
    builder.publish(0, 44_000, { from: T + 301, to: T + 301 }, stored)
    publishRow(builder, { count: 40, first: 330, made })
    builder.happen({ type: 'down', at: 41_000, origin: 0 })
    builder.happen({ type: 'restart', at: 50_000, by: 'close', after: 1000 })
    builder.happen({ type: 'up', at: 320_000, origin: 0 })
    return { clocks: { error: 0, at: 0, sleep: 0, date: 3_600_000 } }
  }),
}

const aheadWithMachine: NamedWorld = {
  name: 'five reports in a row are an hour ahead, as the machine is, and dates are right',
  pages: 60,
  hasFalseClaim: true,
  world: build(builder => {
    publishRow(builder, { count: 40, step: 5, first: 5 })
    publishRow(builder, {
      count: 5,
      step: 5,
      first: 205,
      made: (index, time) => ({
        from: index === 0 ? T + 201 : T + time + 3596,
        to: T + time + 3600,
      }),
    })
    publishRow(builder, {
      count: 40,
      step: 5,
      first: 230,
      fate: index => (index % 9 === 1 ? stored : sent),
    })
    return { clocks: { error: 3_600_000, at: 0, sleep: 0, date: 0 } }
  }),
}

const lateBelowClaim: NamedWorld = {
  name: 'dates are an hour ahead, and a page refutes the range of a report that has just come',
  pages: 14,
  world: build(builder => {
    publishRow(builder, {
      count: 75,
      step: 1,
      first: 1,
      fate: index => (index === 67 ? { storedAfter: 9500, sent: [] } : sent),
    })
    publishRow(builder, {
      count: 2,
      step: 1,
      first: 76,
      fate: index => ({ storedAfter: index === 0 ? 100 : 6000, sent: [] }),
    })
    publishRow(builder, {
      count: 20,
      step: 1,
      first: 78,
      made: index => (index === 0 ? { from: T + 76, digest: 1 } : { digest: 1 }),
    })
    return { clocks: { error: 3_600_000, at: 0, sleep: 0, date: undefined } }
  }),
}

const besideFarBehind: NamedWorld = {
  name: 'two networks that do not link publish a feed, one of them an hour behind',
  pages: 350,
  world: build(builder => {
    for (let index = 0; index < 850; index++)
      for (const [digest, time] of [2 + 2 * index, 3 + 2 * index].entries()) {
        const to = T + time - 3600 * digest
        const fate = index % 9 === 7 ? stored : sent
        builder.publish(0, time * 1000, { from: to, to, digest }, fate)
      }
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
  backWithMachine,
  aheadOfCursor,
  backBehindExact,
  manyRanges,
  storedAfterNext,
  manyAhead,
  datesAhead,
  aheadWithMachine,
  lateBelowClaim,
  besideFarBehind,
]
