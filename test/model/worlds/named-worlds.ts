// Worlds in which streams have lost, doubled or invented something.
import {
  createWorldBuilder,
  type Fate,
  type Made,
  type Observation,
  remade,
  START,
  type World,
  type WorldBuilder,
} from './world.js'

/** A world by its name, and what is to be seen in it besides the rules of all. */
export interface NamedWorld {
  readonly name: string
  readonly world: Omit<World, 'continuity'>
  /** The pages that may be asked for, at most. */
  readonly pages: number
  readonly conflicts?: number
  /** Version 1: neither pages nor gaps, whatever is missing. */
  readonly isUntouched?: boolean
  /** The network itself skips a time without saying so: that may be announced, though nothing was published. */
  readonly hasFalseClaim?: boolean
}

/** The time of reports, in seconds, from which a world's reports count. */
export const T: number = START / 1000

/** Stored and sent at once. */
export const sent: Fate = { storedAfter: 100, sent: [{ origin: 0, after: 50 }] }
/** Stored alone. */
export const stored: Fate = { storedAfter: 100, sent: [] }

/** Reports that link, one after the other. */
export interface Row {
  readonly count: number
  /** Seconds from one to the next. */
  readonly step?: number
  readonly first?: number
  fate?(index: number): Fate
  made?(index: number, time: number): Partial<Made>
}

/** Publishes reports that link, at their times. */
export function publishRow(builder: WorldBuilder, row: Row): readonly Observation[] {
  const { count, step = 2, first = 2, fate = () => sent, made } = row
  return Array.from({ length: count }, (_, index) => {
    const time = first + index * step
    const from = Math.max(T + time - step + 1, T + time - 299)
    const facts = { from, to: T + time, ...made?.(index, time) }
    return builder.publish(0, time * 1000, facts, fate(index))
  })
}

/** Publishes a few reports after all that has happened, of which the first links to this one. */
function publishEnd(builder: WorldBuilder, last: Observation | undefined): void {
  const first = Math.floor(builder.lastAt / 1000) + 2
  const linked = Math.max((last?.to ?? 0) + 1, T + first - 299)
  const made = (index: number): Partial<Made> => (index === 0 ? { from: linked } : {})
  publishRow(builder, { count: 3, first, made })
}

/** Builds the world of what is published; its feeds are in seconds unless it says otherwise. */
export function build(
  publish: (builder: WorldBuilder) => Partial<World>,
  units: readonly (1 | 1000 | string)[] = [1],
): Omit<World, 'continuity'> {
  const builder = createWorldBuilder(units)
  return builder.build(publish(builder))
}

const overlap: NamedWorld = {
  name: 'after the fifth second, two are stored alone, and the next claims to hold since the fourth',
  // Two, and what is asked after it has gone quiet.
  pages: 6,
  world: build(builder => {
    publishRow(builder, { count: 5, first: 1, step: 1 })
    publishRow(builder, { count: 2, first: 6, step: 1, fate: () => stored })
    builder.publish(0, 8000, { from: T + 4, to: T + 8, digest: 1 }, sent)
    publishRow(builder, { count: 20, first: 9, step: 1, made: () => ({ digest: 1 }) })
    return {}
  }),
}

const lagging: NamedWorld = {
  name: 'one of three origins is 300 reports behind',
  pages: 4 * 45,
  world: build(builder => {
    const lost = (index: number) => index % 9 === 5
    const row = publishRow(builder, {
      count: 400,
      fate: index => ({
        storedAfter: 100,
        sent: lost(index) ? [] : [0, 1].map(origin => ({ origin, after: 50 + 30 * origin })),
      }),
    })
    for (const [index, observation] of row.entries()) {
      const at = row[index + 300]?.at ?? builder.lastAt + 10
      builder.happen({ type: 'report', at: at + 70, observation, origin: 2 })
    }
    publishEnd(builder, row.at(-1))
    return { origins: 3 }
  }),
}

const replayed: NamedWorld = {
  name: 'the last 600 reports are sent again',
  pages: 3 * 100,
  world: build(builder => {
    const row = publishRow(builder, {
      count: 700,
      fate: index => (index % 7 === 3 ? stored : sent),
    })
    const at = builder.lastAt + 1000
    builder.happen({ type: 'down', at: at - 600, origin: 0 })
    builder.happen({ type: 'up', at: at - 100, origin: 0 })
    for (const observation of row.slice(-600))
      builder.happen({ type: 'report', at, observation, origin: 0 })
    publishEnd(builder, row.at(-1))
    return {}
  }),
}

function ahead(count: number, seconds: number, isLinked: boolean): NamedWorld {
  return {
    name: `${count} ${isLinked ? 'linked ' : ''}reports are ${seconds} s ahead, and then back`,
    pages: 40,
    hasFalseClaim: !isLinked,
    world: build(builder => {
      publishRow(builder, { count: 10 })
      publishRow(builder, {
        count,
        first: 22,
        made(index, time) {
          const to = T + time + seconds
          return { to, from: isLinked ? (index === 0 ? T + 21 : to - 1) : to }
        },
      })
      const first = 22 + 2 * count
      let last = T + 20
      for (let time = first; time < first + 60; time += 2) {
        // There is a report of that time already.
        const isTaken = time >= 22 + seconds && time < first + seconds
        if (isTaken) continue
        const made = { from: last + 1, to: T + time }
        builder.publish(0, time * 1000, made, time % 10 === 0 ? stored : sent)
        last = T + time
      }
      builder.publish(0, 90_000, { from: last + 1, to: T + 90 }, sent)
      return {}
    }),
  }
}

const rare: NamedWorld = {
  name: 'a feed has one report in ten minutes',
  // The feed is always stale: it is asked for less and less often.
  pages: 20 * 8,
  world: build(builder => {
    publishRow(builder, {
      count: 20,
      step: 600,
      first: 10,
      fate: index => (index % 4 === 2 ? stored : sent),
    })
    return {}
  }),
}

const late: NamedWorld = {
  name: 'the service stores three seconds late',
  pages: 4 * 20,
  world: build(builder => {
    publishRow(builder, {
      count: 62,
      fate: index => ({ storedAfter: 3000, sent: index % 3 === 2 ? [] : sent.sent }),
    })
    return { isPlain: true }
  }),
}

const changed: NamedWorld = {
  name: 'a page repeats an observation two reports later, and it has changed',
  pages: 8,
  conflicts: 1,
  world: build(
    builder => {
      const from = START + 1000
      for (let index = 0; index < 40; index++) {
        const to = from + 100 * index
        const fate = index === 20 ? stored : { storedAfter: 20, sent: [{ origin: 0, after: 20 }] }
        builder.publish(0, 1000 + 100 * index, { from: to - 99, to }, fate)
      }
      const at = from + 2100
      return {
        changePage: page => page.map(each => (each.to === at ? remade(each, { value: 43 }) : each)),
      }
    },
    [1000],
  ),
}

const behind: NamedWorld = {
  name: 'all reports come more than five minutes late',
  pages: 60,
  world: build(builder => {
    const offset = 360
    for (let index = 0; index < 120; index++) {
      const to = T + 2 * index - offset
      const fate = index % 10 === 6 ? stored : sent
      builder.publish(0, 2000 * index, { from: to - 1, to }, fate)
    }
    return {}
  }),
}

const lateOrigin: NamedWorld = {
  name: 'a second origin is six minutes behind',
  pages: 60,
  world: build(builder => {
    const row = publishRow(builder, {
      count: 120,
      fate: index => (index % 10 === 6 ? stored : sent),
    })
    for (const observation of row)
      builder.happen({ type: 'report', at: observation.at + 360_000, observation, origin: 1 })
    publishEnd(builder, row.at(-1))
    return { origins: 2 }
  }),
}

const blocks: NamedWorld = {
  name: 'a feed of version 1 has no ranges',
  pages: 0,
  isUntouched: true,
  world: build(
    builder => {
      const row = publishRow(builder, {
        count: 60,
        fate: index => (index % 6 === 4 ? stored : sent),
        // Of blocks.
        made: index => ({ from: 17_000_000 + 3 * index }),
      })
      const at = builder.lastAt + 1000
      for (const observation of row.slice(-20))
        if (observation.to % 3 === 0) builder.happen({ type: 'report', at, observation, origin: 0 })
      return {}
    },
    [`0x0001${'ab'.repeat(30)}`],
  ),
}

/** All that a person has thought of. */
export const namedWorlds: readonly NamedWorld[] = [
  overlap,
  lagging,
  replayed,
  ...[10, 240, 360, 3600].flatMap(seconds =>
    [1, 2, 3].flatMap(count => [true, false].map(isLinked => ahead(count, seconds, isLinked))),
  ),
  rare,
  late,
  changed,
  behind,
  lateOrigin,
  blocks,
]
