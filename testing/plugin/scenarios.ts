import { APIError } from '../../client/contract/errors.js'
import type { Plugin } from '../../client/contract/plugin.js'
import type { Stream } from '../../client/stream/stream-api.js'
import { asError } from '../../core/errors.js'
import { countProcessListeners, setImmediate, watchRejections } from '../../platform/globals.js'
import { haDiscovery } from '../../plugins/ha-discovery/index.js'
import { feedVersion } from '../../report/feed-id.js'
import type { Gap } from '../../report/gaps.js'
import type { Report } from '../../report/report.js'
import { Findings } from '../faults.js'
import type { SampleReport } from '../reports.js'
import type { Refusal, SampleWire } from '../service.js'
import type { Turn } from '../turn.js'
import { isPlanted, PlantedError } from './observer.js'
import { warmUp } from './warm-up.js'
import { type Member, sampleOrigins, World, type WorldSettings } from './world.js'

/** One part of the test. It plays against a client that has the plugin. */
interface Scenario {
  readonly name: string
  /** The origins of the service. */
  readonly origins?: readonly string[]
  /** Something ends in the midst, so requests and streams may end either way. */
  readonly isCutShort?: boolean
  play(world: World, make: () => Plugin): Promise<void>
}

/** What a world looks like after its scenario, to be compared with a world without the plugin. */
export interface ScenarioOutcome {
  readonly outcomes: ReadonlyMap<string, string>
  /** What had not settled before the clients were closed. */
  readonly unsettled: readonly string[]
  readonly errors: ReadonlyMap<string, Error>
  readonly timers: readonly string[]
  readonly listeners: number
  readonly userListeners: number
  readonly processListeners: number
  readonly connections: number
  /** The calls that had not settled before the clients were closed. */
  readonly openCalls: readonly string[]
  /** What has not settled at the end. */
  readonly pendingCalls: readonly string[]
}

/** How scenarios end without the plugin, by their name and patience. */
export type Baseline = Map<string, ScenarioOutcome>

/** The operations of the user's calls that have not settled. */
const findPendingCalls = ({ members }: World): readonly string[] =>
  members.flatMap(({ observer }) =>
    observer.calls
      .filter(({ call, isSettled }) => !isSettled && call.purpose === 'user')
      .map(({ call }) => call.operation),
  )

/** Resolves when the program waits for timers alone: work of the thread pool is done, too. */
async function settled(): Promise<void> {
  const iteration = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
  await iteration()
  const data = new Uint8Array(1)
  const digest = (): Promise<unknown> => globalThis.crypto.subtle.digest('SHA-256', data)
  // The pool has four threads by default, and takes tasks in order.
  await Promise.all([digest(), digest(), digest(), digest()])
  await iteration()
}

/** Plays all scenarios, each without the plugin and with it. Returns how many were played. */
export async function runScenarios(
  turn: Turn,
  make: (wire: SampleWire) => Plugin,
  name: string,
  given: WorldSettings,
  findings: Findings,
  baseline: Baseline = new Map(),
): Promise<number> {
  const rejections: unknown[] = []
  const endWatch = await watchRejections(reason => rejections.push(reason))
  try {
    await warmUp()
    // Loads what the plugin loads with the first call. Nothing is checked.
    const [first] = scenarios as [Scenario]
    await play(turn, first, make, given, new Findings(''))
    for (const scenario of scenarios) {
      // Where something never settles, each scenario would wait for it: once is enough.
      const isStuck = findings.has('settle') || findings.has('hold')
      const settings = isStuck ? { ...given, patience: Math.min(given.patience, 5000) } : given
      const key = `${scenario.name} ${settings.patience}`
      const expected =
        baseline.get(key) ??
        (await play(turn, scenario, () => ({ name }), settings, new Findings('')))
      baseline.set(key, expected)
      rejections.length = 0
      findings.where = scenario.name
      const found = await play(turn, scenario, make, settings, findings)
      await settled()
      for (const reason of rejections)
        if (!isPlanted(reason))
          findings.add(
            'throws',
            `a promise was rejected, and nobody caught it: ${asError(reason).message}`,
          )
      compare(expected, found, scenario, settings, findings)
    }
  } finally {
    endWatch()
  }
  return scenarios.length
}

async function play(
  turn: Turn,
  { origins, play: run }: Scenario,
  make: (wire: SampleWire) => Plugin,
  settings: WorldSettings,
  findings: Findings,
): Promise<ScenarioOutcome> {
  const processListeners = countProcessListeners()
  const time = turn.startTime({ settled, origins: true, grace: GRACE, maxSteps: MAX_STEPS })
  const world = new World(time, findings, settings, origins)
  try {
    await run(world, () => make(world.service.wire))
  } catch (thrown) {
    findings.add('throws', `it threw: ${asError(thrown).stack ?? asError(thrown).message}`)
  }
  try {
    checkHeld(world)
    for (const { observer } of world.members) observer.checkReports()
    const unsettled = [...world.pending]
    const openCalls = findPendingCalls(world)
    const listeners = world.members.reduce((sum, { signal }) => sum + signal.listeners, 0)
    await world.close()
    const userListeners = world.userListeners.listeners
    const timers = time.timerOrigins
    // What a plugin does too late happens now.
    await time.pass(settings.patience)
    return {
      outcomes: world.outcomes,
      unsettled,
      errors: world.errors,
      timers,
      listeners,
      userListeners,
      processListeners: countProcessListeners() - processListeners,
      connections: world.service.connections.size,
      openCalls,
      pendingCalls: [...world.pending, ...findPendingCalls(world)],
    }
  } finally {
    time.end()
  }
}

/** A report that has not left by now is dropped or held, if its stream is still open. */
function checkHeld({ members, findings, settings }: World): void {
  if (settings.may.has('drop')) return
  for (const { observer } of members) {
    for (const lane of observer.lanes) {
      if (lane.scope.signal.aborted && lane.scope.kind === 'stream') continue
      const [missing] = observer.missing([lane])
      if (missing === undefined) continue
      const name = observer.describe(missing)
      if (settings.may.has('delay')) findings.add('hold', `it never passed on ${name}`)
      else findings.add('drop', `it did not pass on ${name}`)
    }
  }
}

/** Compares a world that has the plugin with a world that lacks it. */
function compare(
  expected: ScenarioOutcome,
  found: ScenarioOutcome,
  { isCutShort = false }: Scenario,
  { may }: WorldSettings,
  findings: Findings,
): void {
  for (const [label, outcome] of expected.outcomes) {
    const now = found.outcomes.get(label)
    const isStuck = found.unsettled.includes(label) && !expected.unsettled.includes(label)
    if (now === undefined) findings.add('settle', `${label} never settled`)
    else if (isStuck) findings.add('settle', `${label} did not settle until the client was closed`)
    else if (now !== outcome && !isCutShort) {
      const reason = found.errors.get(label)?.message ?? ''
      const isBetter = now === 'success' && (may.has('repeat') || may.has('answer'))
      const isRefused = outcome === 'success' && (may.has('refuse') || may.has('drop'))
      // A plugin that rejects calls itself chooses the error, unless the pipeline made it.
      const mayChoose = may.has('refuse') || may.has('repeat') || may.has('answer')
      const areErrors = now !== 'success' && outcome !== 'success'
      const isOtherError = areErrors && mayChoose && !/PLUGIN/.test(now)
      if (!isBetter && !isRefused && !isOtherError)
        findings.add(
          'reply',
          `${label} ended with ${now}, and without the plugin with ${outcome}. ${reason}`.trim(),
        )
    }
  }
  const timers = found.timers.slice(expected.timers.length)
  if (timers.length > 0)
    findings.add(
      'timer',
      `${timers.length} ${timers.length === 1 ? 'timer was' : 'timers were'} left after the client was closed, started in ${timers.at(-1)}`,
    )
  const more = (name: 'listeners' | 'userListeners' | 'processListeners' | 'connections'): number =>
    found[name] - expected[name]
  if (more('listeners') > 0)
    findings.add('listener', `${more('listeners')} listeners were left on the signal of the client`)
  if (more('userListeners') > 0)
    findings.add('listener', `${more('userListeners')} listeners were left on the user's signal`)
  if (more('processListeners') > 0)
    findings.add('listener', `${more('processListeners')} listeners were left on the process`)
  if (more('connections') > 0)
    findings.add('connection', `${more('connections')} connections were left open`)
  for (const name of found.pendingCalls)
    if (!expected.pendingCalls.includes(name)) findings.add('settle', `${name} never settled`)
  if (!isCutShort)
    for (const name of found.openCalls)
      if (!expected.openCalls.includes(name))
        findings.add('settle', `the call ${name} did not settle until the client was closed`)
}

/** The feed whose reports have one value, for a conflict. */
const singleValued = (feedIDs: readonly string[]): string | undefined =>
  feedIDs.find(feedID => [2, 7].includes(feedVersion(feedID)))

/** Starts every kind of request. */
function requestAll(world: World, { client }: Member, suffix: string, signal?: AbortSignal): void {
  const { feedIDs } = world.settings
  const [first, second] = feedIDs as [string, string]
  const at = (feedID: string): number =>
    world.reportAt(feedID, world.start - 5).observationsTimestamp
  const options = { ...(signal && { signal }) }
  const seconds = world.start - 5
  world.begin(`listFeeds${suffix}`, client.listFeeds(options))
  world.begin(`getLatestReport${suffix}`, client.getLatestReport(first, options))
  world.begin(`getLatestReport of another feed${suffix}`, client.getLatestReport(second, options))
  world.begin(
    `getReportByTimestamp${suffix}`,
    client.getReportByTimestamp(first, at(first), options),
  )
  world.begin(`getReportsPage${suffix}`, client.getReportsPage(first, at(first) - 10, 5, options))
  world.begin(
    `getReportsBulk${suffix}`,
    client.getReportsBulk(feedIDs.slice(0, 3), seconds, options),
  )
}

/** Stores a minute of reports. */
function storeHistory(world: World): void {
  for (const feedID of world.settings.feedIDs)
    for (let age = 60; age > 0; age--) world.service.store(world.report(feedID, age))
}

async function connect(world: World, stream: Stream, label = 'connect'): Promise<void> {
  stream.on('report', () => undefined)
  world.begin(label, stream.connect())
  await world.settle()
}

/** The steps of a stream's life. A test may stop after any of them. */
const steps: readonly {
  readonly name: string
  run(world: World, member: Member, stream: Stream): Promise<void> | void
}[] = [
  { name: 'the connection', run: (world, _, stream) => connect(world, stream) },
  { name: 'live reports', run: world => world.round(world.settings.feedIDs) },
  {
    name: 'duplicates',
    async run(world) {
      const reports = world.settings.feedIDs.map(feedID => world.report(feedID))
      for (const report of reports) world.service.publish(report)
      for (const report of reports) world.service.send(report)
      await world.time.pass(1000)
    },
  },
  {
    name: 'a late report',
    async run(world) {
      const feedID = world.settings.feedIDs[0] as string
      const late: SampleReport = world.report(feedID)
      await world.round(world.settings.feedIDs, [feedID])
      await world.round(world.settings.feedIDs)
      world.service.publish(late)
      await world.time.pass(100)
    },
  },
  {
    name: 'a conflict',
    async run(world) {
      const feedID = singleValued(world.settings.feedIDs)
      if (feedID === undefined) return
      await world.round([feedID])
      world.service.send(world.report(feedID, 1, 5n))
      await world.time.pass(100)
    },
  },
  {
    name: 'backfilled reports',
    async run(world, member) {
      const scope = world.scopeOf(member)
      const feedID = world.settings.feedIDs[1] as string
      if (scope === undefined) return
      const { observationsTimestamp: since } = world.report(feedID, 40)
      world.begin(
        'the injection of backfilled reports',
        scope.client.fetchPage(feedID, since, 5, scope.signal).then(page =>
          Promise.all(
            page.map(async report => {
              await scope.inject(report)
              member.observer.injected.add(report)
            }),
          ),
        ),
      )
      await world.time.pass(500)
    },
  },
  {
    name: 'a gap',
    run(world, member) {
      const scope = world.scopeOf(member)
      const feedID = world.settings.feedIDs[2] as string
      const { observationsTimestamp: to } = world.report(feedID, 50)
      const gap = { feedID, from: to - 3, to, cause: 'unavailable' as const }
      scope?.events.emit('gap', gap)
    },
  },
  { name: 'requests', run: (world, member) => requestAll(world, member, ' beside a stream') },
  {
    name: 'fewer feeds',
    async run(world, _, stream) {
      const { feedIDs } = world.settings
      world.begin('unsubscribe', stream.unsubscribe(feedIDs.slice(2)))
      await world.round(feedIDs)
      await world.settle()
    },
  },
  {
    name: 'more feeds',
    async run(world, _, stream) {
      world.begin('subscribe', stream.subscribe([...world.settings.feedIDs]))
      await world.settle()
      await world.round(world.settings.feedIDs)
    },
  },
  {
    name: 'a lost connection',
    async run(world) {
      world.service.drop()
      await world.round(world.settings.feedIDs)
      await world.time.pass(10_000)
      await world.round(world.settings.feedIDs)
    },
  },
]

/** Lets a stream live through the first steps. */
async function live(world: World, member: Member, stream: Stream, count = steps.length) {
  storeHistory(world)
  for (const step of steps.slice(0, count)) await step.run(world, member, stream)
}

/** Waits until each report has left the plugin, or patience is over. */
async function flush(world: World): Promise<void> {
  const { patience, may } = world.settings
  if (!may.has('delay')) return
  const isEmpty = (): boolean =>
    world.members.every(({ observer }) => observer.missing().length === 0)
  await world.time.until(isEmpty, may.has('drop') ? Math.min(5000, patience) : patience)
  await world.settle()
}

/** Real milliseconds in which a module may be loaded, or a thread may answer. */
const GRACE = 10
/** The most timers that may run while a scenario waits once. */
const MAX_STEPS = 20_000

const failures: readonly (readonly [string, Refusal])[] = [
  ['a network error', 'network-error'],
  ['no answer', 'no-answer'],
  ['the status 401', 401],
  ['the status 429', 429],
  ['the status 500', 500],
]

const scenarios: readonly Scenario[] = [
  {
    name: 'requests',
    async play(world, make) {
      const member = world.join(make())
      storeHistory(world)
      requestAll(world, member, '')
      await world.settle()
      requestAll(world, member, ' again')
      await world.settle()
    },
  },
  ...failures.map(
    ([name, refusal]): Scenario => ({
      name: `requests that get ${name}`,
      async play(world, make) {
        const member = world.join(make())
        storeHistory(world)
        world.service.refuse = () => refusal
        requestAll(world, member, '')
        await world.settle()
        world.service.refuse = () => undefined
        await world.time.pass(60_000)
        requestAll(world, member, ' afterwards')
        await world.settle()
      },
    }),
  ),
  ...(
    [
      ['a network error', 'network-error'],
      ['the status 500', 500],
      ['the status 429', 429],
    ] as const
  ).map(
    ([name, refusal]): Scenario => ({
      name: `requests that get ${name} once`,
      async play(world, make) {
        const member = world.join(make())
        storeHistory(world)
        const seen = new Set<string>()
        world.service.refuse = (_, { href }) => {
          if (seen.has(href)) return undefined
          seen.add(href)
          return refusal
        }
        requestAll(world, member, '')
        await world.settle()
      },
    }),
  ),
  {
    name: 'requests of the user that fail, while requests of plugins succeed',
    async play(world, make) {
      const member = world.join(make())
      storeHistory(world)
      const thrown = new APIError('the user gets no answer', { isRetryable: false })
      member.observer.throwsBelow = ({ purpose }) => (purpose === 'user' ? { thrown } : null)
      requestAll(world, member, '')
      await world.settle()
    },
  },
  {
    name: 'requests with a wrong clock',
    async play(world, make) {
      const member = world.join(make())
      storeHistory(world)
      world.service.clockOffset = 3_600_000
      world.service.refuse = () => 401
      requestAll(world, member, '')
      await world.settle()
    },
  },
  ...failures.map(
    ([name, refusal]): Scenario => ({
      name: `a stream whose upgrades get ${name}`,
      async play(world, make) {
        const member = world.join(make())
        const { feedIDs } = world.settings
        storeHistory(world)
        world.service.refuse = kind => (kind === 'stream' ? refusal : undefined)
        const stream = world.open(member, feedIDs, { maxReconnectAttempts: 3 })
        await connect(world, stream, 'connect to nobody')
        await world.round(feedIDs)
        world.service.refuse = () => undefined
        const other = world.open(member, feedIDs)
        await connect(world, other)
        await world.round(feedIDs)
        await flush(world)
      },
    }),
  ),
  {
    name: 'reports that are acknowledged by hand',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs } = world.settings
      storeHistory(world)
      const stream = world.open(member, feedIDs, { acknowledge: 'manual' })
      let count = 0
      stream.on('report', report => {
        if (count++ % 2 === 0) report.acknowledge()
      })
      world.begin('connect', stream.connect())
      await world.settle()
      for (let round = 0; round < 3; round++) await world.round(feedIDs)
      await flush(world)
    },
  },
  {
    name: 'a plugin below that throws',
    async play(world, make) {
      const member = world.join(make())
      storeHistory(world)
      for (const [index, thrown] of [new PlantedError('thrown'), 'a text', undefined].entries()) {
        member.observer.throwsBelow = () => ({ thrown })
        requestAll(world, member, ` ${index}`)
        await world.settle()
      }
      member.observer.throwsBelow = undefined
      await world.time.pass(60_000)
      requestAll(world, member, ' afterwards')
      await world.settle()
    },
  },
  ...[0, 3, 8, 15].map(
    (ms): Scenario => ({
      name: `requests that are aborted after ${ms} ms`,
      isCutShort: true,
      async play(world, make) {
        const member = world.join(make())
        storeHistory(world)
        world.service.refuse = () => (ms === 15 ? 500 : undefined)
        const controller = new AbortController()
        requestAll(world, member, '', controller.signal)
        await world.time.pass(ms)
        controller.abort(new PlantedError('the user aborted'))
        await world.time.pass(1000)
        for (const label of world.pending)
          world.findings.add(
            'abort',
            `${label} had not settled a second after its signal had aborted`,
          )
        await world.settle()
      },
    }),
  ),
  {
    name: 'a request beside the same request, which is aborted',
    async play(world, make) {
      const { client } = world.join(make())
      const feedID = world.settings.feedIDs[0] as string
      storeHistory(world)
      const controller = new AbortController()
      const { signal } = controller
      world.begin('the aborted request', client.getLatestReport(feedID, { signal }))
      await world.time.pass(3)
      world.begin('the request beside it', client.getLatestReport(feedID))
      await world.time.pass(3)
      controller.abort(new PlantedError('the user aborted'))
      await world.settle()
    },
  },
  {
    name: 'a stream',
    async play(world, make) {
      const member = world.join(make())
      await live(world, member, world.open(member, world.settings.feedIDs))
      await flush(world)
    },
  },
  {
    name: 'a stream over two origins',
    origins: sampleOrigins,
    async play(world, make) {
      const plugin = make()
      const around = plugin.name === 'ha-discovery' ? [] : [haDiscovery()]
      const member = world.join(plugin, around)
      const stream = world.open(member, world.settings.feedIDs)
      storeHistory(world)
      await connect(world, stream)
      await world.time.pass(1000)
      await world.round(world.settings.feedIDs)
      world.service.drop('001')
      await world.round(world.settings.feedIDs)
      await world.time.pass(5000)
      await world.round(world.settings.feedIDs)
      await flush(world)
    },
  },
  {
    name: 'two streams and two clients',
    async play(world, make) {
      // A plugin may stand in the stacks of two clients.
      const plugin = make()
      const members = [world.join(plugin), world.join(plugin)]
      const { feedIDs } = world.settings
      storeHistory(world)
      const streams = members.flatMap(member => [
        world.open(member, feedIDs),
        world.open(member, feedIDs),
      ])
      for (const [index, stream] of streams.entries())
        await connect(world, stream, `connect of stream ${index}`)
      for (let round = 0; round < 3; round++) await world.round(feedIDs)
      await flush(world)
      checkSameReports(world)
      // The others go on when one of them ends, with what had come before.
      for (const feedID of feedIDs) world.service.publish(world.report(feedID))
      world.begin('the close of the first stream', (streams[0] as Stream).close())
      await world.settle()
      await world.time.pass(1000)
      await world.round(feedIDs)
      await flush(world)
      checkSameReports(world, 1)
    },
  },
  {
    name: 'streams that come and go',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs, findings } = { ...world.settings, findings: world.findings }
      storeHistory(world)
      async function comeAndGo(index: number): Promise<void> {
        const stream = world.open(member, feedIDs)
        await connect(world, stream, `connect of stream ${index}`)
        await world.round(feedIDs)
        world.begin(`the close of stream ${index}`, stream.close())
        await world.settle()
        await world.time.pass(5000)
      }
      await comeAndGo(0)
      const timers = world.time.timers
      const { listeners } = member.signal
      const most = 3
      for (let index = 1; index <= most; index++) await comeAndGo(index)
      const isMore = (now: number, before: number): boolean => now - before >= most
      if (isMore(world.time.timers, timers))
        findings.add(
          'timer',
          `each stream left a timer until the client is closed, started in ${world.time.timerOrigins.at(-1)}: clear it in scope.defer of the stream`,
        )
      if (isMore(member.signal.listeners, listeners))
        findings.add(
          'listener',
          'each stream left a listener on the signal of the client: remove it in scope.defer of the stream',
        )
    },
  },
  {
    name: 'a stream that stays open for two minutes',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs } = world.settings
      const stream = world.open(member, feedIDs)
      storeHistory(world)
      await connect(world, stream)
      const life = stream.closed.then(() => Promise.reject(new Error('it was closed')))
      await world.round(feedIDs)
      await world.time.pass(120_000)
      await world.round(feedIDs)
      world.begin('the open stream', Promise.race([life, Promise.resolve()]))
      await flush(world)
    },
  },
  {
    name: 'a plugin above that throws',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs } = world.settings
      const stream = world.open(member, feedIDs)
      storeHistory(world)
      await connect(world, stream)
      await world.round(feedIDs)
      member.observer.throwsAbove = true
      await world.round(feedIDs)
      await flush(world)
      const hasThrown = !member.observer.throwsAbove
      const isHidden = member.observer.passedOn.size === 0 && world.streamErrors.length === 0
      if (hasThrown && isHidden)
        world.findings.add('hide', 'it caught the error of a plugin above, and hid it')
      await world.round(feedIDs)
      await flush(world)
    },
  },
  {
    name: 'a plugin above that is not set up',
    async play(world, make) {
      const plugin = make()
      const { settings } = world
      const failing: Plugin = {
        name: 'test-failing',
        setup() {
          throw new PlantedError('setup threw')
        },
      }
      const broken = new World(world.time, world.findings, {
        ...settings,
        stack: each => [...settings.stack(each), failing],
      })
      world.begin(
        'a client whose last plugin throws in setup',
        Promise.resolve().then(() => void broken.join(plugin)),
      )
      await world.settle()
    },
  },
  {
    name: 'a slow reader',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs } = world.settings
      const stream = world.open(member, feedIDs, { queue: 4 })
      storeHistory(world)
      world.begin('connect', stream.connect())
      await world.settle()
      for (let round = 0; round < 3; round++) await world.round(feedIDs)
      let read = 0
      world.begin(
        'reading',
        (async () => {
          for await (const report of stream) if (report !== undefined) read++
        })(),
      )
      await world.time.pass(1000)
      await flush(world)
      const left = member.observer.lanes
        .filter(({ scope }) => scope.kind === 'stream')
        .reduce((sum, lane) => sum + lane.left.length, 0)
      world.findings.check(
        read >= left || world.settings.may.has('take'),
        'flow',
        `a slow reader got ${read} of the ${left} reports that left the plugin`,
      )
    },
  },
  {
    name: 'a stream that gives up beside a stream that goes on',
    async play(world, make) {
      const member = world.join(make())
      const { feedIDs, may, patience } = world.settings
      const gaps: Gap[] = []
      const ending = world.open(member, feedIDs, { maxReconnectAttempts: 0 })
      ending.on('gap', gap => gaps.push(gap))
      const lasting = world.open(member, feedIDs, {
        maxReconnectAttempts: Number.POSITIVE_INFINITY,
      })
      storeHistory(world)
      await connect(world, ending, 'connect of the stream that gives up')
      await connect(world, lasting, 'connect of the stream that goes on')
      world.begin('the end of the stream', ending.closed)
      await world.round(feedIDs)
      // A report is missing, so a plugin that sorts holds the next one.
      world.service.refuse = () => 'network-error'
      await world.time.pass(1000)
      for (const feedID of feedIDs) world.service.send(world.report(feedID))
      world.service.drop()
      await world.settle()
      if (!may.has('delay')) return
      // A report that the other stream delivers was held, and not dropped.
      const [ended, lasted] = member.observer.lanes.filter(({ scope }) => scope.kind === 'stream')
      await world.time.until(() => lasted?.left.length === lasted?.passages.size, patience)
      const kept = new Set(ended?.left)
      const delivered = new Set(lasted?.left)
      for (const { report, fields } of ended?.passages.values() ?? []) {
        if (kept.has(fields) || !delivered.has(fields) || gaps.some(gap => covers(gap, report)))
          continue
        world.findings.add(
          'ending',
          `the stream ended, and it still held ${member.observer.describe(report)}: pass it on at the event ending`,
        )
      }
    },
  },
  ...steps.flatMap((step, index) =>
    (['stream', 'client', 'signal'] as const).map(
      (what): Scenario => ({
        name:
          what === 'signal'
            ? `a stream whose signal aborts during ${step.name}`
            : `a ${what} that is closed during ${step.name}`,
        isCutShort: true,
        async play(world, make) {
          const member = world.join(make())
          const stream = world.open(member, world.settings.feedIDs)
          await live(world, member, stream, index)
          // The last step is under way.
          const under = Promise.resolve(step.run(world, member, stream)).catch(() => undefined)
          await settled()
          if (what === 'stream') world.begin('close', stream.close())
          else if (what === 'client') world.begin('close', member.client.close())
          else world.user.abort(new PlantedError('the user aborted'))
          await world.time.pass(2000)
          for (const label of world.pending)
            if (label === 'close') world.findings.add('settle', 'the close took over two seconds')
          await world.settle()
          await under
        },
      }),
    ),
  ),
]

const covers = ({ feedID, from, to }: Gap, report: Report): boolean =>
  feedID === report.feedID &&
  from <= report.observationsTimestamp &&
  report.observationsTimestamp <= to

/** Streams of the same feeds must get the same reports. `from` is the first that counts. */
function checkSameReports({ members, findings }: World, from = 0): void {
  const lanes = members.flatMap(({ observer }) =>
    observer.lanes.filter(({ scope }) => scope.kind === 'stream'),
  )
  const [first, ...others] = lanes
    .slice(from)
    .map(lane => [...new Set(lane.left)].sort().join('\n'))
  findings.check(
    others.every(each => each === first),
    'streams',
    'streams of the same feeds got different reports: they share a state',
  )
}
