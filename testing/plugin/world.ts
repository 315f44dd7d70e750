import { type Client, createClient } from '../../client/client.js'
import type { Plugin, Plugins } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import type { Stream } from '../../client/stream/stream-api.js'
import { asError } from '../../core/errors.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Findings } from '../faults.js'
import { type SampleReport, sampleReport } from '../reports.js'
import { SampleService } from '../service.js'
import type { VirtualTime } from '../virtual-time.js'
import { type Allowance, Observer } from './observer.js'

/** What all worlds of a test have in common. */
export interface WorldSettings {
  /** Makes the stack around the plugin. */
  readonly stack: (plugin: Plugin) => Plugins
  readonly may: ReadonlySet<Allowance>
  readonly feedIDs: readonly string[]
  readonly values: (feedID: string) => readonly (bigint | number | boolean)[] | undefined
  readonly signed: boolean
  /** Milliseconds after which a report that is held counts as lost, and a call as pending. */
  readonly patience: number
  /** The reports made so far. All worlds begin at the same time, so they share them. */
  readonly reports: Map<string, SampleReport>
}

/** One client of a world. */
export interface Member {
  readonly client: Client
  readonly observer: Observer
  /** Its streams, with the outcome of each. */
  readonly streams: Stream[]
  /** The scope of the client, once its plugins are set up. */
  readonly signal: { listeners: number }
}

/** Counts the listeners of a signal. */
function watchSignal(signal: AbortSignal): { listeners: number } {
  const counter = { listeners: 0 }
  const { addEventListener, removeEventListener } = signal
  const listeners = new Set<unknown>()
  signal.addEventListener = (type: string, listener: never, options?: never): void => {
    listeners.add(listener)
    counter.listeners = listeners.size
    addEventListener.call(signal, type, listener, options)
  }
  signal.removeEventListener = (type: string, listener: never, options?: never): void => {
    listeners.delete(listener)
    counter.listeners = listeners.size
    removeEventListener.call(signal, type, listener, options)
  }
  return counter
}

/** The ids of the origins in the scenario with two origins. */
export const sampleOrigins = ['001', '002'] as const

/**
 * A service, clients with the plugin, and their streams, in a virtual time. Every world runs one
 * scenario. `outcomes` says how it went for the user.
 */
export class World {
  readonly service: SampleService
  readonly members: Member[] = []
  /** How the user's requests and streams went, by label. */
  readonly outcomes: Map<string, string> = new Map()
  /** Calls of the user that have not settled. */
  readonly pending: Set<string> = new Set()
  readonly time: VirtualTime
  readonly findings: Findings
  readonly settings: WorldSettings
  /** The user's signal, which lasts as long as the world. */
  readonly user: AbortController = new AbortController()
  readonly userListeners: { listeners: number }
  /** The second of Unix time at which the world began. */
  readonly start: number

  constructor(
    time: VirtualTime,
    findings: Findings,
    settings: WorldSettings,
    origins: readonly string[] = [],
  ) {
    this.time = time
    this.findings = findings
    this.settings = settings
    this.service = new SampleService((ms, task) => time.outside(ms, task), origins)
    this.userListeners = watchSignal(this.user.signal)
    this.start = Math.floor(time.wall / 1000)
  }

  /** Makes a client whose stack has the plugin. */
  join(plugin: Plugin, around: readonly Plugin[] = []): Member {
    const { findings, settings, service } = this
    let signal = { listeners: 0 }
    const observer = new Observer(findings, settings.may, service.answers, scope => {
      signal = watchSignal(scope.signal)
    })
    const { endpoint, wsEndpoint, fetch, connect } = service
    const client = createClient({
      endpoint,
      wsEndpoint,
      fetch,
      connect,
      plugins: [
        observer.above,
        ...around,
        ...settings.stack(observer.watch(plugin)),
        observer.below,
      ],
    })
    const member = { client, observer, streams: [] as Stream[], signal }
    this.members.push(member)
    return member
  }

  /** Starts something of the user, and notes its outcome. */
  begin(label: string, promise: Promise<unknown>): void {
    this.pending.add(label)
    const settle = (outcome: string): void => {
      this.pending.delete(label)
      this.outcomes.set(label, outcome)
    }
    promise.then(
      () => settle('success'),
      thrown => {
        const { code = asError(thrown).name } = asError(thrown) as { code?: string }
        settle(`the error ${code}`)
        this.errors.set(label, asError(thrown))
      },
    )
  }

  /** The errors of the outcomes. */
  readonly errors: Map<string, Error> = new Map()

  /** Waits until the user's calls have settled. */
  async settle(): Promise<void> {
    await this.time.until(() => this.pending.size === 0, this.settings.patience)
  }

  /** Opens a stream. */
  open(member: Member, feedIDs: readonly string[], options: object = {}): Stream {
    const stream = member.client.createStream(feedIDs, { signal: this.user.signal, ...options })
    member.streams.push(stream)
    stream.on('error', error => this.streamErrors.push(error))
    stream.closed.catch(() => undefined)
    return stream
  }

  /** The errors that streams have emitted. */
  readonly streamErrors: Error[] = []

  /** The scope of the latest open stream of a member. */
  scopeOf({ observer }: Member): StreamScope | undefined {
    const scopes = observer.lanes.map(({ scope }) => scope)
    return scopes.find(
      (scope): scope is StreamScope => scope.kind === 'stream' && !scope.signal.aborted,
    )
  }

  /** Makes a report of a feed, dated `age` seconds before now. */
  report(feedID: string, age = 0, value?: bigint): SampleReport {
    return this.reportAt(feedID, Math.floor(this.time.wall / 1000) - age, value)
  }

  /** Makes a report of a feed at a second of Unix time. `value` is its only value. */
  reportAt(feedID: string, seconds: number, value?: bigint): SampleReport {
    const { values, signed, reports } = this.settings
    const key = `${feedID} ${seconds} ${value}`
    const known = reports.get(key)
    if (known !== undefined) return known
    const isMilliseconds = feedResolution(feedID) === 'ms'
    const unit = isMilliseconds ? 1000 : 1
    const given = value === undefined ? values(feedID) : [value]
    const report = sampleReport({
      feedID,
      observationsTimestamp: seconds * unit,
      validFromTimestamp: (seconds - 1) * unit + (isMilliseconds ? 1 : 0),
      signed,
      ...(given && { values: given }),
    })
    reports.set(key, report)
    return report
  }

  /** Publishes one report of each feed, except `but`, and lets a second pass. */
  async round(feedIDs: readonly string[], but: readonly string[] = []): Promise<void> {
    for (const feedID of feedIDs)
      if (!but.includes(feedID)) this.service.publish(this.report(feedID))
    await this.time.pass(1000)
  }

  /** Closes all clients. */
  async close(): Promise<void> {
    for (const [index, { client }] of this.members.entries())
      this.begin(`the close of client ${index}`, client.close())
    await this.settle()
  }
}
