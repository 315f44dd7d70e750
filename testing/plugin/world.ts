import { type Client, createClient } from '../../client/client.js'
import type { Plugin, Plugins } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Stream } from '../../client/stream/stream-api.js'
import { asError } from '../../core/errors.js'
import { feedResolution, feedVersion } from '../../report/feed-id.js'
import type { Findings } from '../faults.js'
import { type SampleReport, sampleReport, sampleVersions } from '../reports.js'
import { SampleService, type SampleWire } from '../service.js'
import type { VirtualTime } from '../virtual-time.js'
import { type Allowance, Observer } from './observer.js'

/** One part of the test. It plays against clients that have the plugin. */
export interface Scenario {
  readonly name: string
  /** The origins of the service. */
  readonly origins?: readonly string[]
  play(world: World): Promise<void>
}

/**
 * Milliseconds of the virtual clock after which a report that a plugin holds counts as lost, and a
 * call as never settled.
 */
export const PATIENCE = 300_000

/** What all worlds of a test have in common. */
export interface WorldSettings {
  /** Makes the stack around the plugin. */
  readonly stack: (plugin: Plugin) => Plugins
  readonly may: ReadonlySet<Allowance>
  readonly feedIDs: readonly string[]
  readonly signed: boolean
  /** The reports made so far. All worlds begin at the same time, so they share them. */
  readonly reports: Map<string, SampleReport>
}

/** One client of a world. */
export interface Member {
  readonly client: Client
  readonly observer: Observer
  /** The signal of the client, once its plugins are set up. */
  readonly signal: ListenerCount
}

interface ListenerCount {
  listeners: number
}

/** How something ended that the user had begun: with `success`, or with an error. */
interface Ending {
  readonly how: string
  readonly reason: string
}

/** Counts the listeners of a signal. */
function watchSignal(signal: AbortSignal, count: ListenerCount): void {
  const { addEventListener, removeEventListener } = signal
  const listeners = new Set<unknown>()
  signal.addEventListener = (type: string, listener: never, options?: never): void => {
    listeners.add(listener)
    count.listeners = listeners.size
    addEventListener.call(signal, type, listener, options)
  }
  signal.removeEventListener = (type: string, listener: never, options?: never): void => {
    listeners.delete(listener)
    count.listeners = listeners.size
    removeEventListener.call(signal, type, listener, options)
  }
}

/** The ids of the origins in the scenario with two origins. */
export const sampleOrigins = ['001', '002'] as const

/** A service, clients with the plugin, and their streams, in a virtual time. */
export class World {
  readonly service: SampleService
  readonly members: Member[] = []
  /** How what the user has begun ended, by label. */
  readonly endings: Map<string, Ending> = new Map()
  /** What the user has begun and has not ended. */
  readonly pending: Set<string> = new Set()
  /** What may end either way, because the user ends it in its midst. */
  readonly cutShort: Set<string> = new Set()
  /** Whether the user is about to end what is under way. */
  isEnding = false
  /** The errors that streams have emitted. */
  readonly streamErrors: Error[] = []
  /** The listeners on the signals of the user. */
  readonly userSignals: ListenerCount[] = []
  readonly time: VirtualTime
  readonly findings: Findings
  readonly settings: WorldSettings
  /** The second of Unix time at which the world began. */
  readonly start: number
  readonly #make: (wire: SampleWire) => Plugin
  readonly #scenario: Scenario
  #part = ''
  /** What was pending when a wait for it was over. */
  readonly #late = new Set<string>()

  constructor(
    time: VirtualTime,
    findings: Findings,
    settings: WorldSettings,
    make: (wire: SampleWire) => Plugin,
    scenario: Scenario,
  ) {
    this.time = time
    this.findings = findings
    this.settings = settings
    this.service = new SampleService((ms, task) => time.outside(ms, task), scenario.origins)
    this.start = Math.floor(time.wall / 1000)
    this.#make = make
    this.#scenario = scenario
    this.storeHistory()
  }

  /** Begins a part of the scenario. Its name tells what is begun in it from the same elsewhere. */
  begin(part: string): void {
    const { name } = this.#scenario
    this.#part = part
    this.findings.where = part === '' ? name : `${name}: ${part}`
  }

  /** Makes the plugin. */
  make(): Plugin {
    return this.#make(this.service.wire)
  }

  /** Makes a client whose stack has the plugin. */
  join(plugin: Plugin = this.make(), around: readonly Plugin[] = []): Member {
    const { findings, settings, service } = this
    const signal = { listeners: 0 }
    const setup: Plugin['setup'] = scope => watchSignal(scope.signal, signal)
    const observer = new Observer(findings, settings.may, service.answers, setup)
    const { endpoint, wsEndpoint, fetch, connect } = service
    const client = createClient({
      endpoint,
      wsEndpoint,
      fetch,
      connect,
      plugins: [...around, ...observer.surround(settings.stack(plugin), plugin)],
    })
    const member = { client, observer, signal }
    this.members.push(member)
    return member
  }

  /** Makes a signal of the user, whose listeners are counted. */
  newSignal(): AbortController {
    const controller = new AbortController()
    const count = { listeners: 0 }
    watchSignal(controller.signal, count)
    this.userSignals.push(count)
    return controller
  }

  /** Notes how something of the user ends. */
  note(what: string, promise: Promise<unknown>, isCutShort: boolean = this.isEnding): void {
    const label = this.#labelOf(what)
    this.pending.add(label)
    if (isCutShort) this.cutShort.add(label)
    const settle = (how: string, reason: string): void => {
      this.pending.delete(label)
      this.endings.set(label, { how, reason })
    }
    promise.then(
      () => settle('success', ''),
      thrown => {
        const error: Error & { code?: string } = asError(thrown)
        settle(`the error ${error.code ?? error.name}`, error.message)
      },
    )
  }

  #labelOf(what: string): string {
    return this.#part === '' ? what : `${what} (${this.#part})`
  }

  /** Whether something of this part of the scenario has not ended. */
  isPending(what: string): boolean {
    return this.pending.has(this.#labelOf(what))
  }

  /** Waits until what the user has begun has ended. What was waited for in vain is left out. */
  async settle(): Promise<void> {
    const isOver = (): boolean => [...this.pending].every(label => this.#late.has(label))
    await this.time.until(isOver, PATIENCE)
    for (const label of this.pending) this.#late.add(label)
  }

  /** Opens a stream of all feeds. */
  open({ client }: Member, options: object = {}): Stream {
    const { signal } = this.newSignal()
    const stream = client.createStream([...this.settings.feedIDs], { signal, ...options })
    stream.on('error', error => this.streamErrors.push(error))
    stream.closed.catch(() => undefined)
    return stream
  }

  /** Connects a stream, and reads its reports. */
  async connect(stream: Stream, name = 'connect'): Promise<void> {
    stream.on('report', () => undefined)
    this.note(name, stream.connect())
    await this.settle()
  }

  /** Starts every kind of request. */
  requestAll({ client }: Member, signal?: AbortSignal): void {
    const [first, second, third] = this.settings.feedIDs as [string, string, string]
    const seconds = this.start - 5
    const at = this.reportAt(first, seconds).observationsTimestamp
    const options = { ...(signal && { signal }) }
    const note = (name: string, request: Promise<unknown>): void =>
      this.note(name, request, signal !== undefined || this.isEnding)
    note('listFeeds', client.listFeeds(options))
    note('getLatestReport', client.getLatestReport(first, options))
    note('getLatestReport of another feed', client.getLatestReport(second, options))
    note('getReportByTimestamp', client.getReportByTimestamp(first, at, options))
    note('getReportsPage', client.getReportsPage(first, at - 10, 5, options))
    note('getReportsBulk', client.getReportsBulk([first, second, third], seconds, options))
  }

  /** The scope of the latest open stream of a member. */
  scopeOf({ observer }: Member): StreamScope | undefined {
    const scopes = observer.lanes.map(({ scope }) => scope)
    return scopes.findLast(
      (scope): scope is StreamScope => scope.kind === 'stream' && !scope.signal.aborted,
    )
  }

  /** Makes a report of a feed, dated `age` seconds before now. */
  report(feedID: string, age = 0, value?: bigint): SampleReport {
    return this.reportAt(feedID, Math.floor(this.time.wall / 1000) - age, value)
  }

  /** Makes a report of a feed at a second of Unix time. `value` is its only value. */
  reportAt(feedID: string, seconds: number, value?: bigint): SampleReport {
    const { signed, reports } = this.settings
    const key = `${feedID} ${seconds} ${value}`
    const known = reports.get(key)
    if (known !== undefined) return known
    const isMilliseconds = feedResolution(feedID) === 'ms'
    const unit = isMilliseconds ? 1000 : 1
    const only = value ?? (sampleVersions.includes(feedVersion(feedID)) ? undefined : 1n)
    const report = sampleReport({
      feedID,
      observationsTimestamp: seconds * unit,
      validFromTimestamp: (seconds - 1) * unit + (isMilliseconds ? 1 : 0),
      signed,
      ...(only !== undefined && { values: [only] }),
    })
    reports.set(key, report)
    return report
  }

  /** Stores a minute of reports. */
  storeHistory(): void {
    for (const feedID of this.settings.feedIDs)
      for (let age = 60; age > 0; age--) this.service.store(this.report(feedID, age))
  }

  /** Publishes one report of each feed, except `but`, and lets a second pass. */
  async round(but?: string): Promise<void> {
    for (const feedID of this.settings.feedIDs)
      if (feedID !== but) this.service.publish(this.report(feedID))
    await this.time.pass(1000)
  }

  /** Waits until each report has left the plugin, or patience is over. */
  async flush(): Promise<void> {
    const { may } = this.settings
    if (!may.has('delay')) return
    const isEmpty = (): boolean => this.members.every(({ observer }) => observer.isEmpty)
    await this.time.until(isEmpty, may.has('drop') ? 5000 : PATIENCE)
    await this.settle()
  }

  /** Closes all clients. */
  async close(): Promise<void> {
    this.begin('')
    for (const [index, { client }] of this.members.entries())
      this.note(`the close of client ${index}`, client.close())
    await this.settle()
  }
}
