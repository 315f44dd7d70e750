import type { StreamInfo } from '@nats-io/jetstream'
import { asError, type Lifetime, sleep } from 'sluice/core'
import type { Health, Measure, Severity } from 'sluice/internal'
import { type ReportLog, timeOf } from './log.js'
import { isAPIError, isDenied } from './refusals.js'

/** A cause of a service that uses a log. */
export type LogCause =
  | 'log-away'
  | 'no-quorum'
  | 'login-refused'
  | 'log-closed'
  | 'stream-missing'
  | 'read-denied'
  | 'copies-behind'
  | 'log-recreated'
  | 'no-new-reports'

/** The causes of a service that uses a log. */
export const logCauses: Readonly<Record<LogCause, Severity>> = {
  /** The servers of NATS can't be reached, or do not answer. */
  'log-away': 'unready',
  /** Too few servers of the cluster are there to store or to answer anything. */
  'no-quorum': 'unready',
  /** The servers of NATS do not accept the user of the connection. */
  'login-refused': 'unready',
  /** The connection to NATS was closed for good. */
  'log-closed': 'dead',
  /** The stream of the log does not exist. */
  'stream-missing': 'unready',
  /** The user of the connection may not read the log. */
  'read-denied': 'unready',
  /** A server's copy of the log has not been up to date for ten seconds. */
  'copies-behind': 'warning',
  /** The stream was deleted and created again in the last ten minutes. */
  'log-recreated': 'warning',
  /** The log has had no new report for 30 seconds. */
  'no-new-reports': 'warning',
}

/** The causes of which a log has one at a time: why it can't be read. */
const unreadable = [
  'log-away',
  'no-quorum',
  'login-refused',
  'stream-missing',
  'read-denied',
] as const
type Unreadable = (typeof unreadable)[number]

/** Milliseconds between two looks at the log. */
const LOOK_INTERVAL = 2000
/** Milliseconds for which a copy must be behind: after an election, copies are for some seconds. */
const BEHIND_FOR = 10_000
/** Milliseconds for which it is said that the stream was created again. */
const RECREATED_FOR = 600_000
/** Milliseconds without a new report after which the log has none. */
const NO_REPORT_FOR = 30_000

/** What a look at a log does besides. */
export interface LogWatch {
  /** Gets what the log says of itself. If it throws, the log counts as away. */
  readonly seen?: (info: StreamInfo) => unknown
  /** Called at each look at which the stream does not exist, with the number of such looks. */
  readonly missing?: (looks: number) => unknown
}

/** What is known of a log that is watched. */
export interface WatchedLog {
  /** Milliseconds since the log has stored its newest report; undefined while there is none. */
  readonly newestReportAgeMs: number | undefined
}

/** How many servers of a cluster there are, and how many there were. */
class Cluster {
  readonly #log: ReportLog
  #most = 0
  #names: ReadonlySet<string> = new Set()

  constructor(log: ReportLog) {
    this.#log = log
  }

  /** Notes the servers that have a copy of the log. */
  note({ cluster }: StreamInfo): void {
    const names = [cluster?.leader, ...(cluster?.replicas ?? []).map(({ name }) => name)]
    const known = names.flatMap(name => name ?? [])
    if (known.length >= this.#names.size) this.#names = new Set(known)
  }

  /**
   * Says which servers are away, if those that are left are no majority. A server names the
   * addresses of all that it reaches, itself included. Where these are one for each copy of the
   * log, they are enough to tell. A server with several addresses can't be told from several
   * servers, so there the log must have left a question unanswered too.
   */
  describeAway(isUnanswered: boolean): string | undefined {
    const { connect_urls: urls = [], server_name: own } = (this.#log.connection.info ?? {}) as {
      readonly connect_urls?: readonly string[]
      readonly server_name?: string
    }
    this.#most = Math.max(this.#most, urls.length)
    const copies = this.#names.size
    if (copies < 2 || urls.length === 0 || 2 * urls.length > this.#most) return undefined
    if (this.#most !== copies)
      return isUnanswered
        ? `${this.#most - urls.length} of ${this.#most} addresses of the servers of NATS are away, and the others do not answer`
        : undefined
    const others = [...this.#names].filter(name => name !== own)
    const away =
      urls.length === 1 && others.length === copies - 1
        ? others.sort().join(', ')
        : `${copies - urls.length}`
    return `of ${copies} servers of NATS, ${away} are away: the others are no majority, so nothing can be stored`
  }
}

/** Looks at a log every two seconds, until the lifetime ends. */
export function watchLog(
  health: Health<LogCause>,
  log: ReportLog,
  life: Lifetime,
  { seen, missing }: LogWatch = {},
): WatchedLog {
  let isConnected = true
  let missed = 0
  let behindSince: number | undefined
  let created: string | undefined
  let recreatedAt: number | undefined
  /** When the log's newest report was stored, by this machine's monotonic clock. */
  let newestAt: number | undefined
  const cluster = new Cluster(log)
  /** Why the servers refuse the user; undefined if they have not since the last connection. */
  let refusal: string | undefined

  /** Begins the problem of a log that can't be read, in place of another one. */
  function begin(cause: Unreadable, message: string): void {
    for (const each of unreadable) if (each !== cause) health.set(each)
    health.set(cause, message)
  }

  /** Says that servers are away. Returns false if enough of them are there. */
  function beginShort(isUnanswered = false): boolean {
    const away = cluster.describeAway(isUnanswered)
    if (away !== undefined) begin('no-quorum', away)
    return away !== undefined
  }

  function sayState(info: StreamInfo): void {
    const { state } = info
    const now = performance.now()
    const copies = describeCopies(info)
    if (copies === undefined) behindSince = undefined
    else behindSince ??= now
    const isBehind = behindSince !== undefined && now - behindSince >= BEHIND_FOR
    health.set('copies-behind', isBehind ? copies : undefined)
    if (created !== undefined && created !== info.created) recreatedAt = now
    created = info.created
    const isRecent = recreatedAt !== undefined && now - recreatedAt < RECREATED_FOR
    health.set(
      'log-recreated',
      isRecent
        ? `stream ${log.stream} was deleted, and created again at ${info.created}: the reports that were stored before are lost`
        : undefined,
    )
    newestAt = state.last_seq === 0 ? undefined : now - (timeOf(info) - Date.parse(state.last_ts))
    sayAge()
  }

  function ageMs(): number | undefined {
    return newestAt === undefined ? undefined : Math.max(0, performance.now() - newestAt)
  }

  function sayAge(): void {
    const age = ageMs() ?? 0
    health.set(
      'no-new-reports',
      age > NO_REPORT_FOR
        ? `the log has had no new report for ${Math.round(age / 1000)} s: look at its relays, and at the service`
        : undefined,
    )
  }

  function beginLost(): void {
    if (refusal === undefined) begin('log-away', 'the connection to NATS is lost')
    else begin('login-refused', `NATS refuses the user of this connection: ${refusal}`)
  }

  async function followConnection(): Promise<void> {
    for await (const status of log.connection.status()) {
      if (life.isOver) return
      if (status.type === 'error' && isRefused(status.error)) {
        refusal = status.error.message
        isConnected = false
        beginLost()
      } else if (status.type === 'disconnect') {
        isConnected = false
        beginLost()
      } else if (status.type === 'update') beginShort()
      else if (status.type === 'reconnect') {
        isConnected = true
        refusal = undefined
      }
    }
    if (!log.connection.isClosed() || life.isOver) return
    const why = refusal === undefined ? '' : `: NATS refuses its user: ${refusal}`
    health.set('log-closed', `the connection to NATS is closed for good${why}`)
  }

  async function look(): Promise<void> {
    try {
      const info = await log.info()
      missed = 0
      cluster.note(info)
      sayState(info)
      await seen?.(info)
      if (life.isOver || !isConnected || beginShort()) return
      for (const cause of unreadable) health.set(cause)
    } catch (thrown) {
      if (life.isOver) return
      sayAge()
      if (!isConnected) return beginLost()
      const cause = causeOf(thrown)
      if (beginShort(cause === 'log-away')) return
      begin(cause, asError(thrown).message)
      if (cause === 'stream-missing') missing?.(++missed)
    }
  }

  async function lookAgain(): Promise<void> {
    while (!life.isOver) {
      await look()
      await sleep(LOOK_INTERVAL, life.signal)
    }
  }

  void followConnection()
  lookAgain().catch(() => undefined)
  return {
    get newestReportAgeMs() {
      return ageMs()
    },
  }
}

/** True if the servers of NATS do not accept the user of the connection. */
function isRefused({ name }: Error): boolean {
  return name === 'AuthorizationError' || name === 'UserAuthenticationExpiredError'
}

function causeOf(thrown: unknown): Unreadable {
  const { message, cause } = asError(thrown)
  if (isAPIError(cause, 'noStream') || /does not exist/.test(message)) return 'stream-missing'
  return isDenied(message) ? 'read-denied' : 'log-away'
}

function describeCopies({ cluster, config }: StreamInfo): string | undefined {
  const behind = (cluster?.replicas ?? []).filter(
    ({ current, offline }) => !current || offline === true,
  )
  if (behind.length === 0) return undefined
  const names = behind.map(({ name, offline }) => `${name}${offline ? ' (away)' : ''}`)
  return `${behind.length} of ${config.num_replicas} copies of the log are not up to date: ${names.join(', ')}`
}

/** The metric of the age of a log's newest report, for a service that reads the log. */
export function newestReportAge(
  service: 'gateway' | 'worker',
  watched: () => WatchedLog | undefined,
): Measure {
  return {
    ...{ name: `sluice.${service}.newest_report_age`, kind: 'gauge', unit: 's' },
    description: 'Time since the log has stored its newest report',
    read() {
      const age = watched()?.newestReportAgeMs
      return age === undefined ? undefined : age / 1000
    },
  }
}
