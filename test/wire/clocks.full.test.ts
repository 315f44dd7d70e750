// Clocks that are wrong, against a service that is written from the protocol alone: the machine's, from the start and by a step, and
// those of the service's dates, with dates and without. While reports are lost on the wire, each is delivered or announced, and
// cursors catch up.
import { afterAll, expect, test } from '@jest/globals'
import {
  continuity,
  createClient,
  decoders,
  dedup,
  type Plugin,
  retry,
  type Status,
  type Stream,
} from '../../index.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { feedID, type Service, signedHeaders, startService } from '../support/service/service.js'
import { pause } from '../support/waiting.js'

const slow = feedID(3, 1)
const fast = feedID(3, 2, { milliseconds: true })
const ERRORS = [-3_600_000, -60_000, -8000, 8000, 60_000, 3_600_000]

/** What is wrong, and when. */
interface Clocks {
  readonly name: string
  /** Milliseconds by which the machine's clock is ahead: from the start, or from the third second on. */
  readonly machine: number
  readonly isStep?: boolean
  /** Milliseconds by which dates are ahead; undefined without them. */
  readonly date: number | undefined
  readonly order?: 'arrival' | 'sorted'
}

interface Found {
  readonly name: string
  readonly lost: number
  readonly doubled: number
  /** Seconds by which the cursors are behind the newest report that was taken. */
  readonly behind: number
  /** Whether a status named the error of the clock, where it was more than two seconds. */
  readonly said: boolean
}

const closers: (() => Promise<void>)[] = []
afterAll(async () => {
  await Promise.all(closers.splice(0).map(close => close()))
})

/** Signs by a clock that is right: nothing is rejected that could show a wrong one. */
function signed(apiKey: string, userSecret: string): Plugin<never> {
  return {
    name: 'signed',
    attempt: next =>
      function sign(call) {
        const { pathname, search } = new URL(call.url)
        const headers = signedHeaders(
          { method: call.method, path: pathname + search },
          { apiKey, userSecret },
        )
        for (const [name, value] of Object.entries(headers)) call.headers.set(name, value)
        return next(call)
      },
  }
}

async function live({ name, machine, isStep, date, order = 'arrival' }: Clocks): Promise<Found> {
  const service = await startService({
    feeds: [slow, fast],
    signatures: 'dummy',
    dateError: date,
  })
  closers.push(() => service.close())
  let error = isStep === true ? 0 : machine
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    endpoint,
    wsEndpoint,
    now: () => Date.now() + error,
    plugins: [
      decoders(),
      continuity({ order }),
      dedup(),
      retry({ delay: 5 }),
      signed(apiKey, userSecret),
    ],
  })
  closers.push(() => client.close())
  const cursors = memoryCursors()
  const stream = client.createStream([slow, fast], { cursors, saveInterval: 100 })
  const seen = watch(stream)
  await stream.connect()
  // The rest of the second in which the stream began belongs to nobody.
  const published: ReturnType<Service['publish']>[] = []
  for (let tenth = 0; tenth < 100; tenth++) {
    if (tenth === 30) error = machine
    for (const [feed, every] of [
      [slow, 10],
      [fast, 2],
    ] as const) {
      if (tenth % every !== 0) continue
      const isLost = tenth > 10 && tenth < 90 && (tenth / every) % 3 === 1
      const report = isLost ? service.store(feed) : service.publish(feed)
      published.push(report)
    }
    await pause(100)
  }
  const seconds = (): readonly number[] =>
    [
      [slow, 1],
      [fast, 1000],
    ].map(([feed, second]) => {
      const newest = Math.max(...(seen.byFeed.get(feed as string) ?? [0]))
      return (newest - (cursors.saved[feed as string] ?? 0)) / (second as number)
    })
  // A range is asked for until ten seconds after the first answer that shows a later report, and a cursor stays below it. A wrong
  // clock delays that answer.
  await pause(4000)
  for (let waited = 0; waited < 20 && Math.max(...seconds()) > 5; waited++) await pause(1000)
  const missing = published.filter(
    ({ feedID: id, observed: time }) =>
      !seen.times.has(`${id} ${time}`) && !seen.isAnnounced(id, time),
  )
  return {
    name,
    lost: missing.length,
    doubled: seen.doubled(),
    behind: Math.max(...seconds()),
    said: seen.statuses.some(({ type }) => type === 'clock'),
  }
}

function watch(stream: Stream) {
  const times = new Set<string>()
  const byFeed = new Map<string, number[]>()
  const gaps: { feedID: string; from: number; to: number }[] = []
  const statuses: Status[] = []
  let doubled = 0
  stream.on('error', () => undefined)
  stream.on('status', status => void statuses.push(status))
  stream.on('gap', gap => void gaps.push(gap))
  stream.on('report', ({ feedID: id, observationsTimestamp: time }) => {
    if (times.has(`${id} ${time}`)) doubled++
    times.add(`${id} ${time}`)
    byFeed.set(id, [...(byFeed.get(id) ?? []), time])
  })
  return {
    times,
    byFeed,
    statuses,
    doubled: () => doubled,
    isAnnounced: (id: string, time: number) =>
      gaps.some(({ feedID: of, from, to }) => of === id && from <= time && time <= to),
  }
}

const worlds: Clocks[] = [
  ...ERRORS.flatMap(machine =>
    [0, undefined].flatMap(date =>
      [false, true].map(isStep => ({
        name: `machine ${machine} ms, ${isStep ? 'step' : 'start'}, ${date === 0 ? 'dated' : 'undated'}`,
        machine,
        isStep,
        date,
      })),
    ),
  ),
  ...ERRORS.map(date => ({ name: `dates ${date} ms`, machine: 0, date })),
  ...[-60_000, 60_000].map(machine => ({
    name: `machine ${machine} ms, sorted`,
    machine,
    date: undefined,
    order: 'sorted' as const,
  })),
]

test('no clock that is wrong loses a report, or delays a cursor', async () => {
  const found = await Promise.all(worlds.map(live))
  expect(found.filter(({ lost, doubled }) => lost + doubled > 0)).toEqual([])
  expect(found.filter(({ behind }) => behind > 5)).toEqual([])
  const mustSay = (name: string) => /machine (-|\d+ ms, (start|step), dated)/.test(name)
  expect(found.filter(({ name, said }) => mustSay(name) && !said)).toEqual([])
}, 60_000)
