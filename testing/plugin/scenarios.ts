import { APIError } from '../../client/contract/errors.js'
import type { Plugin } from '../../client/contract/plugin.js'
import type { Stream } from '../../client/stream/stream-api.js'
import { haDiscovery } from '../../plugins/ha-discovery/index.js'
import { feedVersion } from '../../report/feed-id.js'
import type { Gap } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import type { Refusal } from '../service.js'
import { type Lane, nameOf, PlantedError } from './observer.js'
import { type Member, PATIENCE, type Scenario, sampleOrigins, World } from './world.js'

const requests: Scenario = {
  name: 'requests',
  async play(world) {
    const member = world.join()
    for (const part of ['the first time', 'the second time']) {
      world.begin(part)
      world.requestAll(member)
      await world.settle()
    }
  },
}

/** Ways in which a service, or the plugin below, fails. */
const failures: Readonly<Record<string, (world: World, member: Member) => void>> = {
  'a network error': refuse('network-error'),
  'no answer': refuse('no-answer'),
  'the status 401': refuse(401),
  'the status 429': refuse(429),
  'the status 500': refuse(500),
  'a network error, once': refuse('network-error', true),
  'the status 429, once': refuse(429, true),
  'the status 500, once': refuse(500, true),
  'the status 401, by a clock that is ahead': ({ service }) => {
    service.clockOffset = 3_600_000
    service.refuse = () => 401
  },
  'an error from the plugin below': throwBelow(new PlantedError('thrown')),
  'a text from the plugin below': throwBelow('a text'),
  'nothing from the plugin below': throwBelow(undefined),
  // Requests of plugins succeed.
  'an error for the user alone': throwBelow(
    new APIError('the user gets no answer', { isRetryable: false }),
    true,
  ),
}

function refuse(refusal: Refusal, isOnce = false) {
  return ({ service }: World): void => {
    const seen = new Set<string>()
    service.refuse = (_, { href }) =>
      isOnce && seen.has(href) ? undefined : seen.add(href) && refusal
  }
}

function throwBelow(thrown: unknown, isForUser = false) {
  return (_: World, { observer }: Member): void => {
    observer.throwsBelow = ({ purpose }) => (isForUser && purpose !== 'user' ? null : { thrown })
  }
}

function recover({ service }: World, { observer }: Member): void {
  service.refuse = () => undefined
  service.clockOffset = 0
  observer.throwsBelow = undefined
}

const failingRequests: Scenario = {
  name: 'requests that fail',
  async play(world) {
    const member = world.join()
    for (const [failure, fail] of Object.entries(failures)) {
      world.begin(failure)
      fail(world, member)
      world.requestAll(member)
      await world.settle()
      recover(world, member)
      await world.time.pass(60_000)
      world.begin(`after ${failure}`)
      world.requestAll(member)
      await world.settle()
    }
  },
}

const abortedRequests: Scenario = {
  name: 'requests that are aborted',
  async play(world) {
    const member = world.join()
    // At once, on the way, with the answer, and while a plugin waits to try again.
    for (const ms of [0, 3, 8, 15]) {
      world.begin(`after ${ms} ms`)
      world.service.refuse = () => (ms === 15 ? 500 : undefined)
      const user = world.newSignal()
      world.requestAll(member, user.signal)
      await world.time.pass(ms)
      user.abort(new PlantedError('the user aborted'))
      await world.time.pass(1000)
      for (const label of world.pending)
        world.findings.add(
          'abort',
          `${label} had not settled a second after its signal had aborted`,
        )
      await world.settle()
    }
    world.service.refuse = () => undefined
    world.begin('beside the same request')
    const feedID = world.settings.feedIDs[0] as string
    const { signal } = world.newSignal()
    const user = world.newSignal()
    world.note('the aborted one', member.client.getLatestReport(feedID, { signal: user.signal }))
    await world.time.pass(3)
    world.note('the other', member.client.getLatestReport(feedID, { signal }))
    await world.time.pass(3)
    user.abort(new PlantedError('the user aborted'))
    await world.settle()
    world.begin('afterwards')
    world.requestAll(member)
    await world.settle()
  },
}

/** Something that happens to a stream. The stream may end during it. */
type Step = (world: World, member: Member, stream: Stream) => Promise<void> | void

const steps: Readonly<Record<string, Step>> = {
  'the connection': (world, _, stream) => world.connect(stream),
  'live reports': world => world.round(),
  async duplicates(world) {
    const reports = world.settings.feedIDs.map(feedID => world.report(feedID))
    for (const report of reports) world.service.publish(report)
    for (const report of reports) world.service.send(report)
    await world.time.pass(1000)
  },
  async 'a late report'(world) {
    const feedID = world.settings.feedIDs[0] as string
    const late = world.report(feedID)
    await world.round(feedID)
    await world.round()
    world.service.publish(late)
    await world.time.pass(100)
  },
  async 'a conflict'(world) {
    const feedID = world.settings.feedIDs.find(each => [2, 7].includes(feedVersion(each)))
    if (feedID === undefined) return
    await world.round()
    world.service.send(world.report(feedID, 1, 5n))
    await world.time.pass(100)
  },
  async 'backfilled reports'(world, member) {
    const scope = world.scopeOf(member)
    const feedID = world.settings.feedIDs[1] as string
    if (scope === undefined) return
    const { observationsTimestamp: since } = world.reportAt(feedID, world.start - 40)
    async function inject(report: Report): Promise<void> {
      await scope?.inject(report)
      member.observer.injected.add(report)
    }
    const page = scope.client.fetchPage(feedID, since, 5, scope.signal)
    const injection = page.then(reports => Promise.all(reports.map(inject)))
    world.note('the injection of backfilled reports', injection)
    await world.time.pass(500)
  },
  'a gap'(world, member) {
    const feedID = world.settings.feedIDs[2] as string
    const { observationsTimestamp: to } = world.reportAt(feedID, world.start - 50)
    const gap = { feedID, from: to - 3, to, cause: 'unavailable' as const }
    world.scopeOf(member)?.events.emit('gap', gap)
  },
  requests: (world, member) => world.requestAll(member),
  async 'fewer feeds'(world, _, stream) {
    const others = world.settings.feedIDs.slice(2)
    world.note('unsubscribe', stream.unsubscribe(others))
    await world.round()
    await world.settle()
  },
  async 'more feeds'(world, _, stream) {
    world.note('subscribe', stream.subscribe([...world.settings.feedIDs]))
    await world.settle()
    await world.round()
  },
  async 'a lost connection'(world) {
    world.service.drop()
    await world.round()
    await world.time.pass(10_000)
    await world.round()
  },
}

const longStream: Scenario = {
  name: 'a stream',
  async play(world) {
    const member = world.join()
    const stream = world.open(member)
    let isOpen = true
    const end = (): void => {
      isOpen = false
    }
    stream.closed.then(end, end)
    for (const [name, step] of Object.entries(steps)) {
      world.begin(name)
      await step(world, member, stream)
    }
    world.begin('two quiet minutes')
    await world.time.pass(120_000)
    world.begin('a report of each feed in every second')
    const { feedIDs, signed } = world.settings
    // Signatures take long.
    const seconds = (signed ? 150 : 1200) / feedIDs.length
    for (let second = 0; second < seconds; second++) await world.round()
    const life = isOpen ? Promise.resolve() : Promise.reject(new Error('the stream has ended'))
    world.note('the life of the stream', life)
    await world.flush()
  },
}

const sideBySide: Scenario = {
  name: 'streams side by side, of two clients',
  async play(world) {
    // No other scenario has reports of these seconds, which the plugin may remember.
    await world.time.pass(3_600_000)
    // A plugin may stand in the stacks of two clients.
    const plugin = world.make()
    const members = [world.join(plugin), world.join(plugin)]
    const streams = members.flatMap(member => [world.open(member), world.open(member)])
    for (const [index, stream] of streams.entries())
      await world.connect(stream, `connect of stream ${index}`)
    for (let second = 0; second < 3; second++) await world.round()
    await world.flush()
    checkSameReports(world)
    world.begin('when the first is closed')
    // The others go on, with what had come before.
    for (const feedID of world.settings.feedIDs) world.service.publish(world.report(feedID))
    world.note('close', (streams[0] as Stream).close())
    await world.settle()
    await world.time.pass(1000)
    await world.round()
    await world.flush()
    checkSameReports(world, 1)
  },
}

/** Streams of the same feeds must get the same reports. `from` is the first that counts. */
function checkSameReports({ members, findings }: World, from = 0): void {
  const lanes = members.flatMap(({ observer }) => observer.streams).slice(from)
  const texts = new Set(lanes.map(lane => [...new Set(lane.left)].sort().join('\n')))
  findings.check(
    texts.size === 1,
    'streams',
    'streams of the same feeds got different reports: they share a state',
  )
}

const twoOrigins: Scenario = {
  name: 'a stream over two origins',
  origins: sampleOrigins,
  async play(world) {
    const plugin = world.make()
    const around = plugin.name === 'ha-discovery' ? [] : [haDiscovery()]
    await world.connect(world.open(world.join(plugin, around)))
    await world.time.pass(1000)
    await world.round()
    world.service.drop('001')
    await world.round()
    await world.time.pass(5000)
    await world.round()
    await world.flush()
  },
}

const readers: Scenario = {
  name: 'streams that are read slowly, or acknowledged by hand',
  async play(world) {
    const member = world.join()
    const slow = world.open(member, { queue: 4 })
    const byHand = world.open(member, { acknowledge: 'manual' })
    let count = 0
    byHand.on('report', report => {
      if (count++ % 2 === 0) report.acknowledge()
    })
    world.note('connect of the slow reader', slow.connect())
    await world.connect(byHand)
    for (let second = 0; second < 3; second++) await world.round()
    let read = 0
    async function readAll(): Promise<void> {
      for await (const report of slow) if (report !== undefined) read++
    }
    world.note('reading', readAll())
    await world.time.pass(1000)
    await world.flush()
    const left = member.observer.streams[0]?.left.length ?? 0
    world.findings.check(
      read >= left || world.settings.may.has('take'),
      'flow',
      `a slow reader got ${read} of the ${left} reports that left the plugin`,
    )
  },
}

const throwingAbove: Scenario = {
  name: 'a plugin above that throws',
  async play(world) {
    const member = world.join()
    const { findings, settings, time } = world
    await world.connect(world.open(member))
    await world.round()
    member.observer.throwsAbove = true
    await world.round()
    await world.flush()
    const hasThrown = !member.observer.throwsAbove
    const isHidden = member.observer.passedOn.size === 0 && world.streamErrors.length === 0
    if (hasThrown && isHidden)
      findings.add('hide', 'it caught the error of a plugin above, and hid it')
    await world.round()
    await world.flush()
    // A client whose last plugin can't be set up ends what the plugins before it have begun.
    const failing: Plugin = {
      name: 'test-failing',
      setup() {
        throw new PlantedError('setup threw')
      },
    }
    const stack: typeof settings.stack = plugin => [...settings.stack(plugin), failing]
    const broken = new World(
      time,
      findings,
      { ...settings, stack },
      () => world.make(),
      throwingAbove,
    )
    world.note(
      'a client that can not be set up',
      Promise.resolve().then(() => broken.join()),
    )
    await world.settle()
  },
}

const givingUp: Scenario = {
  name: 'a stream that gives up',
  async play(world) {
    const member = world.join()
    const gaps: Gap[] = []
    const ending = world.open(member, { maxReconnectAttempts: 0 })
    ending.on('gap', gap => gaps.push(gap))
    const lasting = world.open(member, { maxReconnectAttempts: Number.POSITIVE_INFINITY })
    await world.connect(ending, 'connect of the stream that gives up')
    await world.connect(lasting, 'connect of the stream that goes on')
    world.note('the end of the stream', ending.closed)
    await world.round()
    world.service.refuse = () => 'network-error'
    // The reports of a second are missing, so a plugin that sorts holds the next ones.
    await world.time.pass(1000)
    for (const feedID of world.settings.feedIDs) world.service.send(world.report(feedID))
    world.service.drop()
    await world.settle()
    await checkHeldAtEnd(world, member, gaps)
    for (const refusal of ['network-error', 'no-answer', 401, 429, 500] as const) {
      world.begin(`upgrades that get ${refusal}`)
      world.service.refuse = kind => (kind === 'stream' ? refusal : undefined)
      await world.connect(world.open(member, { maxReconnectAttempts: 3 }), 'connect to nobody')
      await world.round()
      world.service.refuse = () => undefined
      await world.connect(world.open(member), 'connect afterwards')
      await world.round()
    }
    await world.flush()
  },
}

/** What the other stream delivers was held by the one that has ended, and not dropped. */
async function checkHeldAtEnd(world: World, { observer }: Member, gaps: Gap[]): Promise<void> {
  if (!world.settings.may.has('delay')) return
  const [ended, lasted] = observer.streams as [Lane, Lane]
  await world.time.until(() => lasted.left.length === lasted.passages.size, PATIENCE)
  const covers = ({ feedID, from, to }: Gap, { observationsTimestamp, ...report }: Report) =>
    feedID === report.feedID && from <= observationsTimestamp && observationsTimestamp <= to
  for (const { report, fields } of ended.passages.values())
    if (
      !ended.left.includes(fields) &&
      lasted.left.includes(fields) &&
      !gaps.some(gap => covers(gap, report))
    )
      world.findings.add(
        'ending',
        `the stream ended, and it still held ${nameOf(report)}: pass it on at the event ending`,
      )
}

const cutShort: Scenario = {
  name: 'a stream that ends in the midst of something',
  async play(world) {
    const lasting = world.join()
    for (const [end, close] of Object.entries(ends)) {
      const before = { timers: world.time.timers, listeners: lasting.signal.listeners }
      for (const [name, step] of Object.entries(steps)) {
        world.begin(`${name}, as ${end}`)
        const member = close === ends['the client is closed'] ? world.join() : lasting
        const user = world.newSignal()
        const stream = world.open(member, { signal: user.signal })
        if (name !== 'the connection') {
          await world.connect(stream)
          await world.round()
        }
        world.isEnding = true
        const under = Promise.resolve(step(world, member, stream)).catch(() => undefined)
        await world.time.pass(0)
        world.isEnding = false
        world.note('close', close(stream, user, member))
        await world.time.pass(2000)
        if (world.isPending('close'))
          world.findings.add('settle', 'the close took over two seconds')
        await world.settle()
        await under
      }
      await world.time.pass(5000)
      checkLeft(world, lasting, before)
    }
  },
}

/** The ways in which a user ends a stream. */
const ends: Readonly<
  Record<string, (stream: Stream, user: AbortController, member: Member) => Promise<unknown>>
> = {
  'the stream is closed': stream => stream.close(),
  'its signal aborts': (stream, user) => {
    user.abort(new PlantedError('the user aborted'))
    return stream.closed.catch(() => undefined)
  },
  'the client is closed': (_stream, _user, { client }) => client.close(),
}

/** Streams that have ended leave nothing until the client is closed. */
function checkLeft(
  { findings, time }: World,
  { signal }: Member,
  before: { readonly timers: number; readonly listeners: number },
): void {
  // A plugin may start some that last as long as the client.
  const isMore = (now: number, earlier: number): boolean => now - earlier >= 3
  if (isMore(time.timers, before.timers))
    findings.add(
      'timer',
      `each stream left a timer until the client is closed, started in ${time.timerOrigins.at(-1)}: clear it in scope.defer of the stream`,
    )
  if (isMore(signal.listeners, before.listeners))
    findings.add(
      'listener',
      'each stream left a listener on the signal of the client: remove it in scope.defer of the stream',
    )
}

/** What a user and a service may do to a plugin. */
export const scenarios: readonly Scenario[] = [
  requests,
  failingRequests,
  abortedRequests,
  longStream,
  sideBySide,
  twoOrigins,
  readers,
  throwingAbove,
  givingUp,
  cutShort,
]
