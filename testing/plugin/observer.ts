import type { Call, Reply } from '../../client/contract/call.js'
import type { Layer, Plugin, Plugins, Sink } from '../../client/contract/plugin.js'
import type { RequestScope, StreamScope } from '../../client/contract/scope.js'
import type { Report } from '../../report/report.js'
import type { Findings } from '../faults.js'

/** The names of what a plugin may do. */
export const allowances = [
  'drop',
  'delay',
  'reorder',
  'add',
  'change',
  'repeat',
  'answer',
  'refuse',
  'take',
] as const
/**
 * What a plugin may do besides passing everything on at once.
 *
 * - `drop`: drop a report.
 * - `delay`: pass on a report later.
 * - `reorder`: change the order of a feed's reports.
 * - `add`: deliver reports of its own.
 * - `change`: pass on another object in place of a report.
 * - `repeat`: send a call several times.
 * - `answer`: answer a call itself.
 * - `refuse`: reject a call itself.
 * - `take`: take reports, so that they wait for no reader.
 */
export type Allowance = (typeof allowances)[number]

/** A report that came from below the plugin. */
interface Passage {
  readonly report: Report
  readonly order: number
  readonly fields: string
  /** The whole report, as a plugin must leave it. */
  readonly state: string
  /** How often it has left the plugin. */
  left: number
  /** Whether the plugin's `report` hook has returned. */
  isReturned: boolean
  /** Whether the feed was unsubscribed since, so that the report need not leave. */
  isUnwanted: boolean
}

/** The reports of one stream or request on their way through the plugin. */
export interface Lane {
  readonly scope: StreamScope | RequestScope
  readonly passages: Map<Report, Passage>
  /** The greatest order that has left, for each feed. */
  readonly newest: Map<string, number>
  /** The reports that left the plugin: feed, time and bytes. */
  readonly left: string[]
}

/** The lane of each report that came from below a plugin. */
const owners = new WeakMap<Report, Lane>()

/** The error that the observer throws into the plugin. */
export class PlantedError extends Error {
  static {
    PlantedError.prototype.name = 'PlantedError'
  }
}

/** Whether an error was thrown by the observer, or is about such an error. */
export function isPlanted(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof PlantedError) return true
  return false
}

/** The calls of one scenario after which a plugin counts as calling itself without end. */
const MOST_CALLS = 2000

const fieldsOf = (report: Report): string =>
  `${report.feedID} ${report.validFromTimestamp} ${report.observationsTimestamp} ${report.source} ${report.origin} ${report.fullReport}`

/** All that a plugin could change in a report: its own fields, and the decoded fields. */
function stateOf(report: Report): string {
  const own = Reflect.ownKeys(report).map(name => `${String(name)}=${report[name as 'feedID']}`)
  let decoded: string
  try {
    decoded = JSON.stringify(report.decoded, (_, value) =>
      typeof value === 'bigint' ? `${value}n` : value,
    )
  } catch {
    decoded = 'not decoded'
  }
  return `${own.join(' ')} ${decoded}`
}

/** Names a report in a message. */
export const nameOf = ({ feedID, observationsTimestamp, source }: Report): string =>
  `the ${source} report of feed ${feedID.slice(0, 10)}… at ${observationsTimestamp}`

/** The hooks whose layers may send a call on. */
type Sending = 'call' | 'attempt'

/**
 * Watches a plugin from both sides: by a plugin above it, nearer to the user, and by one below it,
 * nearer to the wire.
 */
export class Observer {
  readonly lanes: Lane[] = []
  /** Calls that have reached the plugin, and whether they have settled. */
  readonly calls: { readonly call: Call; isSettled: boolean }[] = []
  /** Injected reports whose `inject` has resolved. */
  readonly injected: Set<Report> = new Set()
  /** Whether the next report that leaves meets an error of the plugin above. */
  throwsAbove = false
  /** What the plugin below throws in place of an attempt. It throws nothing if this is null. */
  throwsBelow: ((call: Call) => { readonly thrown: unknown } | null) | undefined
  /** The errors that were thrown into the plugin and came out of it again. */
  readonly passedOn: Set<unknown> = new Set()
  /** The attempts of requests that are under way. */
  readonly #running = new Set<Call>()
  /** How often each request was sent on since it reached the plugin. */
  readonly #sent: Readonly<Record<Sending, WeakMap<object, number>>> = {
    call: new WeakMap(),
    attempt: new WeakMap(),
  }
  readonly #findings: Findings
  readonly #may: ReadonlySet<Allowance>
  /** The bodies that the service has sent, by method and URL. */
  readonly #answers: ReadonlyMap<string, ReadonlySet<string>>
  readonly #setup: Plugin['setup']

  constructor(
    findings: Findings,
    may: ReadonlySet<Allowance>,
    answers: ReadonlyMap<string, ReadonlySet<string>>,
    setup: Plugin['setup'],
  ) {
    this.#findings = findings
    this.#may = may
    this.#answers = answers
    this.#setup = setup
  }

  /** The stack with a plugin of the test on each side of the plugin. */
  surround(stack: Plugins, plugin: Plugin): Plugins {
    const above: Plugin = {
      name: 'test-above',
      setup: scope => this.#setup?.(scope),
      call: next => call => this.#watchCall(next, call),
      attempt: next => call => {
        this.#sent.attempt.delete(call.scope)
        return next(call)
      },
      report: (next, scope) => this.#watchLeaving(next, scope),
    }
    const below: Plugin = {
      name: 'test-below',
      call: next => call => {
        this.#countSent('call', call)
        return next(call)
      },
      attempt: next => call => this.#watchAttempt(next, call),
      report: (next, scope) => this.#watchEntering(next, scope),
    }
    return stack.flatMap(each => (each === plugin ? [above, each, below] : [each]))
  }

  #countSent(hook: Sending, call: Call): void {
    const count = (this.#sent[hook].get(call.scope) ?? 0) + 1
    this.#sent[hook].set(call.scope, count)
    if (call.kind === 'request' && count > 1 && !this.#may.has('repeat'))
      this.#findings.add('repeat', `its ${hook} layer sent ${call.operation} ${count} times`)
  }

  /** Checks that nothing has changed in the reports since they left the plugin. */
  checkReports(): void {
    for (const { passages } of this.lanes)
      for (const { report, state } of passages.values())
        if (state !== stateOf(report))
          this.#findings.add('mutate', `it changed a field of ${nameOf(report)} afterwards`)
  }

  /** The reports that have entered the plugin by a lane, and have not left it. */
  missing({ passages }: Lane): readonly Report[] {
    const mayWait = this.#may.has('delay')
    return [...passages.values()]
      .filter(({ left, isUnwanted }) => left === 0 && !(mayWait && isUnwanted))
      .map(({ report }) => report)
  }

  /** Whether every report has left the plugin. */
  get isEmpty(): boolean {
    return this.lanes.every(lane => this.missing(lane).length === 0)
  }

  /** The lanes of streams. */
  get streams(): readonly Lane[] {
    return this.lanes.filter(({ scope }) => scope.kind === 'stream')
  }

  #laneOf(scope: StreamScope | RequestScope): Lane {
    const known = this.lanes.find(lane => lane.scope === scope)
    if (known !== undefined) return known
    const lane: Lane = { scope, passages: new Map(), newest: new Map(), left: [] }
    this.lanes.push(lane)
    if (scope.kind === 'stream')
      scope.events.on('status', status => {
        if (status.type !== 'unsubscribed') return
        for (const passage of lane.passages.values())
          passage.isUnwanted ||= status.feedIDs.includes(passage.report.feedID)
      })
    return lane
  }

  async #watchCall(next: Parameters<Layer>[0], call: Call): Promise<Reply> {
    if (this.calls.length >= MOST_CALLS) {
      this.#findings.add(
        'loop',
        `over ${MOST_CALLS} calls were made, the last of them ${call.operation}: a plugin's own request goes through the plugin again, so it must leave calls of the purpose plugin alone`,
      )
      throw new PlantedError('too many calls')
    }
    const entry = { call, isSettled: false }
    this.calls.push(entry)
    this.#sent.call.delete(call.scope)
    try {
      const reply = await next(call)
      if (reply.kind === 'request') this.#checkReply(call, reply.body)
      return reply
    } finally {
      entry.isSettled = true
      for (const attempt of this.#running)
        if (attempt.scope === call.scope && !attempt.signal.aborted)
          this.#findings.add('abort', `${call.operation} ended, and its request went on`)
    }
  }

  #checkReply({ method, url }: Call, body: Uint8Array): void {
    const text = new TextDecoder().decode(body)
    if (this.#answers.get(`${method} ${url}`)?.has(text)) return
    const isOther = [...this.#answers.values()].some(bodies => bodies.has(text))
    if (isOther) this.#findings.add('own-reply', `${method} ${url} got the reply to another call`)
    else if (!this.#may.has('answer'))
      this.#findings.add('own-reply', `${method} ${url} got a reply that the service has not sent`)
  }

  #watchAttempt(next: Parameters<Layer>[0], call: Call): Promise<Reply> {
    this.#countSent('attempt', call)
    this.#findings.check(
      !call.signal.aborted,
      'abort',
      `an attempt of ${call.operation} was sent after its signal had aborted`,
    )
    const planted = this.throwsBelow?.(call)
    if (planted) throw planted.thrown
    if (call.kind === 'stream') return next(call)
    this.#running.add(call)
    return next(call).finally(() => this.#running.delete(call))
  }

  #watchEntering(next: Sink, scope: StreamScope | RequestScope): Sink {
    const lane = this.#laneOf(scope)
    return report => {
      const passage = {
        report,
        order: lane.passages.size,
        fields: fieldsOf(report),
        state: stateOf(report),
        left: 0,
        isReturned: false,
        isUnwanted: false,
      }
      lane.passages.set(report, passage)
      owners.set(report, lane)
      try {
        next(report)
      } catch (thrown) {
        if (isPlanted(thrown)) this.passedOn.add(thrown)
        else if (scope.kind === 'stream' || !this.#may.has('drop'))
          this.#findings.add('throws', `its report hook threw for ${nameOf(report)}: ${thrown}`)
        throw thrown
      } finally {
        passage.isReturned = true
      }
    }
  }

  #watchLeaving(next: Sink, scope: StreamScope | RequestScope): Sink {
    const lane = this.#laneOf(scope)
    return report => {
      this.#checkLeaving(lane, report)
      lane.left.push(fieldsOf(report))
      if (this.throwsAbove) {
        this.throwsAbove = false
        throw new PlantedError('the plugin above threw')
      }
      next(report)
    }
  }

  #checkLeaving(lane: Lane, report: Report): void {
    const { scope, passages, newest } = lane
    const may = (name: Allowance): boolean => this.#may.has(name)
    const name = nameOf(report)
    const check: Findings['check'] = (...given) => this.#findings.check(...given)
    const add: Findings['add'] = (...given) => this.#findings.add(...given)
    check(
      !scope.signal.aborted,
      'after-close',
      scope.kind === 'stream'
        ? `it delivered ${name} after the stream was closed`
        : `it delivered ${name} after its request had settled: give the promise to scope.waitUntil`,
    )
    const passage = passages.get(report)
    if (passage === undefined) {
      const isCopy = [...passages.values()].some(each => each.fields === fieldsOf(report))
      if (owners.has(report)) add('streams', `it delivered ${name} to another stream or request`)
      else if (isCopy) check(may('change'), 'change', `it delivered a copy of ${name}`)
      else check(may('add'), 'add', `it delivered ${name}, which no plugin below had passed on`)
      return
    }
    passage.left++
    check(passage.left === 1, 'duplicate', `it delivered ${name} twice`)
    check(passage.state === stateOf(report), 'mutate', `it changed a field of ${name}`)
    check(
      may('delay') || !passage.isReturned,
      'delay',
      `it passed on ${name} after its report hook had returned`,
    )
    check(
      !this.injected.has(report),
      'wait',
      `inject had resolved before it passed on ${name}: give the promise to scope.waitUntil`,
    )
    const before = newest.get(report.feedID) ?? -1
    check(
      may('reorder') || passage.order > before,
      'reorder',
      `it passed on ${name} after a report that had arrived later`,
    )
    newest.set(report.feedID, Math.max(before, passage.order))
  }
}
