import {
  type Clock,
  checkBoolean,
  checkFunction,
  checkNumber,
  kindOf,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { asyncDispose, inMilliseconds, pickOptions } from 'sluice/internal'
import type { CatalogueSpec } from './catalogue-spec.js'
import type { SignedReport } from './chain.js'
import { nextTurn, ScaledClock } from './clock.js'
import { type DataEngine, openEngine } from './data-engine.js'
import type { PublishedReport } from './ledger.js'
import { checkEngineOptions, type DataEngineOptions } from './options.js'
import type { EngineOrigin } from './origin.js'
import type { Publisher } from './publisher.js'
import { type RecordedReport, readRecording } from './replay.js'

const incidents = [
  'kill',
  'restart',
  'disconnect',
  'blackhole',
  'reachable',
  'mute',
  'unmute',
] as const

/** Something that happens to an origin of a replay. */
export interface Incident {
  /** When, in milliseconds of Unix time of the recording. */
  readonly at: number
  /** What. `reachable` ends `blackhole`, and `unmute` ends `mute`. */
  readonly what: (typeof incidents)[number]
  /** The close code of `disconnect`. @default the connections are reset */
  readonly code?: number
}

/** What an origin of a replay does to the reports. */
export interface OriginScript {
  /** Milliseconds of the recording by which its reports come later. @default 0 */
  readonly lagMs?: number
  /**
   * The share of reports that it loses, 0 to 1, or a function that returns true for a report that
   * it loses. @default 0
   */
  readonly lose?: number | ((report: PublishedReport) => boolean)
  /** What happens to it, in the order of time. @default [] */
  readonly incidents?: readonly Incident[]
}

/** The options of the service that a replay has from a data engine. */
type ServiceOptions = Pick<
  DataEngineOptions,
  | 'apiKey'
  | 'userSecret'
  | 'port'
  | 'host'
  | 'rateLimit'
  | 'keepAlive'
  | 'maxBufferedBytes'
  | 'compression'
  | 'seed'
>

/** The options of `startReplay`. */
export interface ReplayOptions extends ServiceOptions {
  /** How many times as fast as on the day the clock runs. @default 1 */
  readonly speed?: number
  /**
   * When the clock begins, in milliseconds of Unix time. Earlier reports are history: REST has
   * them. @default just before the first report came
   */
  readonly from?: number
  /** Whether the clock stands still at first. @default false */
  readonly paused?: boolean
  /**
   * Milliseconds from the time of a report to its publication, for reports whose recording does not
   * say when they came. @default 500
   */
  readonly delayMs?: number
  /**
   * Whether streams get the reports that the stream of that day had missed, and fetched later. REST
   * has them in any case. @default false
   */
  readonly streamMissed?: boolean
  /** A script for each origin. @default one origin without faults */
  readonly origins?: readonly OriginScript[]
  /** What the catalogue says of feeds, by feed id. @default what a data engine says */
  readonly catalogue?: Readonly<Record<string, CatalogueSpec>>
}

const serviceNames = {
  apiKey: true,
  userSecret: true,
  port: true,
  host: true,
  rateLimit: true,
  keepAlive: true,
  maxBufferedBytes: true,
  compression: true,
  seed: true,
} as const
const ofService = unchecked<undefined>
const schema = {
  ...{ apiKey: ofService, userSecret: ofService, port: ofService, host: ofService },
  ...{ rateLimit: ofService, keepAlive: ofService, maxBufferedBytes: ofService },
  ...{ compression: ofService, seed: ofService },
  speed: withDefault(1, checkSpeed),
  from: optional(number({ min: 0 })),
  paused: withDefault(false, checkBoolean),
  delayMs: withDefault(500, number({ min: 0 })),
  streamMissed: withDefault(false, checkBoolean),
  origins: withDefault([{}], checkScripts),
  catalogue: unchecked<Readonly<Record<string, CatalogueSpec>> | undefined>,
}

const incidentSchema = {
  at: number({ min: 0 }),
  what: oneOf(...incidents),
  code: unchecked<number | undefined>,
} satisfies Schema<Incident>

function checkSpeed(field: string, value: unknown): number {
  const speed = checkNumber(field, value, { min: 0 })
  if (speed > 0) return speed
  throw new ValidationError(`${field} must be more than 0: pause() stops the clock`)
}

function checkScripts(field: string, value: unknown): readonly OriginScript[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new ValidationError(`${field} must be a list of scripts, not ${kindOf(value)}`)
  return value.map((script: OriginScript, at) => {
    const place = `${field}[${at}].`
    return readOptions(
      `${field}[${at}]`,
      script,
      {
        lagMs: withDefault(0, number({ min: 0 })),
        lose: withDefault<number | ((report: PublishedReport) => boolean)>(0, (name, given) =>
          typeof given === 'function'
            ? checkFunction(name, given)
            : checkNumber(name, given, { min: 0, max: 1 }),
        ),
        incidents: withDefault<readonly Incident[]>([], (name, given) => {
          if (!Array.isArray(given)) throw new ValidationError(`${name} must be a list`)
          return given.map((each, index) =>
            readOptions(
              `${name}[${index}]`,
              each as Incident,
              incidentSchema,
              `${name}[${index}].`,
            ),
          )
        }),
      } satisfies Schema<OriginScript>,
      place,
    )
  })
}

/** Turns of the event loop in which a client of this process reads what was written. */
const TURNS = 4

/** A recording that is being served. */
export interface Replay extends Pick<DataEngine, ServiceParts> {
  /**
   * The clock of the recording, for the option `clock` of a client. While it shows a time, the
   * service is as it was at that time.
   */
  readonly clock: Clock
  /** How many times as fast as on the day the clock runs. It can be set. */
  speed: number
  /** Whether the clock stands still. */
  readonly isPaused: boolean
  /** How many reports are not published yet. */
  readonly left: number
  /** Resolves once the last report is published. The clock goes on. */
  readonly ended: Promise<void>
  /** The time of the clock, in milliseconds of Unix time. */
  now(): number
  /** Stops the clock. */
  pause(): void
  /** Lets the clock go on. */
  resume(): void
  /**
   * Moves a stopped clock to the next report, or over so many of them. Everything that becomes due
   * happens at its own time. Resolves with the reports.
   */
  step(count?: number): Promise<readonly PublishedReport[]>
  /** Closes the service for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

type ServiceParts =
  | 'endpoint'
  | 'wsEndpoint'
  | 'apiKey'
  | 'userSecret'
  | 'feeds'
  | 'origins'
  | 'catalogue'
  | 'connections'
  | 'ledger'
  | 'requests'
  | 'deliveries'

/** A report, and when the service had it. */
interface Planned {
  readonly report: SignedReport
  readonly at: number
  /** Whether streams get it. */
  readonly isStreamed: boolean
}

/**
 * Serves a recording as the service of that day: REST, streams, the catalogue and the original
 * signatures, at any speed and from any time.
 *
 * @example
 * await using replay = await startReplay('reports.ndjson', { speed: 60 })
 * const { endpoint, wsEndpoint, apiKey, userSecret, clock } = replay
 * const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, clock })
 */
export async function startReplay(
  recording: readonly RecordedReport[] | string,
  options: ReplayOptions = {},
): Promise<Replay> {
  const settings = readOptions('startReplay', options, schema)
  const { delayMs, streamMissed, origins } = settings
  const plan = planOf(await readRecording(recording), delayMs, streamMissed)
  const [first] = plan
  if (first === undefined) {
    const place = typeof recording === 'string' ? recording : 'the recording'
    throw new ValidationError(`${place} has no reports: there is nothing to replay`)
  }
  const clock = new ScaledClock(settings.from ?? first.at - 1, settings.speed, true)
  const service = pickOptions(options, serviceNames) as ServiceOptions
  const checked = checkEngineOptions({
    ...service,
    ...{ clock, intervalMs: 0, history: 0, origins: origins.length },
  })
  const { engine, publisher, written } = await openEngine(
    { ...checked, isReplay: true },
    plan.map(({ report }) => report),
  )
  clock.settle = async () => {
    await written()
    for (let turn = 0; turn < TURNS; turn++) await nextTurn()
  }
  const replay = new RunningReplay(clock, engine, publisher, plan)
  for (const [feedID, spec] of Object.entries(settings.catalogue ?? {}))
    engine.catalogue.set(feedID, spec)
  for (const [index, script] of origins.entries())
    play(script, engine.origins[index] as EngineOrigin, clock)
  replay.begin()
  if (!settings.paused) clock.set({ isPaused: false })
  return replay.handle()
}

/** When the service had each report, in the order of time. */
function planOf(
  recorded: readonly (SignedReport & Pick<RecordedReport, 'source' | 'receivedAt'>)[],
  delayMs: number,
  streamMissed: boolean,
): readonly Planned[] {
  const seen = new Set<string>()
  const plan: Planned[] = []
  for (const { source, receivedAt, ...report } of recorded) {
    const key = `${report.feedID} ${report.observationsTimestamp}`
    // A recording that was continued may have a report twice.
    if (seen.has(key)) continue
    seen.add(key)
    const isMissed = source === 'backfill'
    const observed = inMilliseconds(report.feedID, report.observationsTimestamp)
    // A missed report was stored on time, and received when it was fetched.
    const at = isMissed ? observed + delayMs : (receivedAt ?? observed + delayMs)
    plan.push({ report, at, isStreamed: !isMissed || streamMissed })
  }
  return plan.sort((one, other) => one.at - other.at)
}

/** Applies a script to an origin. */
function play(script: OriginScript, origin: EngineOrigin, clock: ScaledClock): void {
  const { lagMs = 0, lose = 0 } = script
  if (lagMs > 0) origin.delay(lagMs)
  if (lose !== 0) origin.drop(lose)
  for (const { at, what, code } of script.incidents ?? []) {
    const happen: Readonly<Record<Incident['what'], () => unknown>> = {
      kill: () => origin.kill(),
      restart: () => origin.restart(),
      disconnect: () => origin.disconnect(code),
      blackhole: () => origin.blackhole(true),
      reachable: () => origin.blackhole(false),
      mute: () => origin.mute(true),
      unmute: () => origin.mute(false),
    }
    clock.setTimeout(() => void happen[what](), at - clock.Date.now())
  }
}

/** Publishes the reports of a recording by its clock. */
class RunningReplay {
  readonly #clock: ScaledClock
  readonly #engine: DataEngine
  readonly #publisher: Publisher
  readonly #plan: readonly Planned[]
  #next = 0
  #end: () => void = () => undefined
  readonly #ended: Promise<void> = new Promise(resolve => {
    this.#end = resolve
  })

  constructor(
    clock: ScaledClock,
    engine: DataEngine,
    publisher: Publisher,
    plan: readonly Planned[],
  ) {
    this.#clock = clock
    this.#engine = engine
    this.#publisher = publisher
    this.#plan = plan
  }

  /** Stores the reports of before the beginning, and schedules the others. */
  begin(): void {
    const start = this.#clock.Date.now()
    for (let next = this.#plan[0]; next !== undefined && next.at <= start; ) {
      this.#publisher.publishRecorded(next.report, next.at, false)
      next = this.#plan[++this.#next]
    }
    this.#schedule()
  }

  handle(): Replay {
    const own = this
    const clock = this.#clock
    const engine = this.#engine
    const close = async (): Promise<void> => {
      clock.end()
      await engine.close()
    }
    return {
      ...pickOptions(engine, {
        ...{ endpoint: true, wsEndpoint: true, apiKey: true, userSecret: true, feeds: true },
        ...{ origins: true, catalogue: true, ledger: true, requests: true, deliveries: true },
      } as Record<Exclude<ServiceParts, 'connections'>, true>),
      get connections() {
        return engine.connections
      },
      clock,
      get speed() {
        return clock.speed
      },
      set speed(speed) {
        clock.set({ speed: checkSpeed('speed', speed) })
      },
      get isPaused() {
        return clock.isPaused
      },
      get left() {
        return own.#plan.length - own.#next
      },
      ended: this.#ended,
      now: () => clock.Date.now(),
      pause: () => clock.set({ isPaused: true }),
      resume: () => clock.set({ isPaused: false }),
      step: async count =>
        this.#step(checkNumber('step: count', count ?? 1, { min: 1, whole: true })),
      close,
      [asyncDispose]: close,
    }
  }

  async #step(count: number): Promise<readonly PublishedReport[]> {
    if (!this.#clock.isPaused)
      throw new ValidationError('step: the clock must stand still: call pause() first')
    const last = this.#plan[Math.min(this.#next + count, this.#plan.length) - 1]
    const before = this.#next
    if (last === undefined || before === this.#plan.length) return []
    await this.#clock.moveTo(last.at)
    return this.#engine.ledger().slice(before, this.#next)
  }

  #schedule(): void {
    const next = this.#plan[this.#next]
    if (next === undefined) this.#end()
    else this.#clock.setTimeout(() => this.#publish(), next.at - this.#clock.Date.now())
  }

  /** Publishes the reports that came at one moment. */
  #publish(): void {
    const at = this.#clock.Date.now()
    for (let next = this.#plan[this.#next]; next !== undefined && next.at <= at; ) {
      this.#publisher.publishRecorded(next.report, next.at, next.isStreamed)
      next = this.#plan[++this.#next]
    }
    this.#schedule()
  }
}
