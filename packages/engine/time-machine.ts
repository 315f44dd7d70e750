import {
  type Checked,
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
import { asyncDispose, pickOptions } from 'sluice/internal'
import { Archive, type ReplayedReport } from './archive.js'
import type { CatalogueSpec } from './catalogue-spec.js'
import { nextTurn, ScaledClock } from './clock.js'
import { type DataEngine, openEngine } from './data-engine.js'
import { checkEngineOptions, type DataEngineOptions } from './options.js'
import type { EngineOrigin } from './origin.js'
import type { Publisher } from './publisher.js'
import { type OnDamage, type RecordingSource, readRecords } from './replay.js'

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
  readonly lose?: number | ((report: ReplayedReport) => boolean)
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
  /** How many of the latest reports of each feed `ledger` has. REST has all. @default 1000 */
  readonly retain?: number
  /**
   * Told of each line of a file that can't be read, which is then left out. @default the first such
   * line is an error
   */
  readonly onDamage?: OnDamage
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
  retain: withDefault(1000, number({ min: 1, whole: true, infinite: true })),
  onDamage: optional(checkFunction<OnDamage>),
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
        lose: withDefault<number | ((report: ReplayedReport) => boolean)>(0, (name, given) =>
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

/** Turns of the event loop in which a client of this process begins what it does next. */
const TURNS = 2

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
  /** How many reports are not streamed, because the stream of that day had missed them. */
  readonly unstreamed: number
  /**
   * Resolves once the last report is published, and every connected client has read it. The clock
   * goes on.
   */
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
  step(count?: number): Promise<readonly ReplayedReport[]>
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
  recording: RecordingSource,
  options: ReplayOptions = {},
): Promise<Replay> {
  const settings = readOptions('startReplay', options, schema)
  const archive = await Archive.read(readRecords(recording, settings.onDamage), settings)
  try {
    return await serve(archive, recording, settings, options)
  } catch (thrown) {
    archive.close()
    throw thrown
  }
}

async function serve(
  archive: Archive,
  recording: RecordingSource,
  settings: Checked<typeof schema>,
  options: ReplayOptions,
): Promise<Replay> {
  const { origins, retain } = settings
  if (archive.length === 0) {
    const place = typeof recording === 'string' ? recording : 'the recording'
    throw new ValidationError(
      `${place} has no reports: there is nothing to replay. Record some by sluice record, or name another file`,
    )
  }
  const clock = new ScaledClock(settings.from ?? archive.begin - 1, settings.speed, true)
  const service = pickOptions(options, serviceNames) as ServiceOptions
  const checked = checkEngineOptions({
    ...service,
    ...{ clock, retain, intervalMs: 0, history: 0, origins: origins.length },
  })
  const { engine, publisher, read } = await openEngine(
    { ...checked, isReplay: true },
    undefined,
    archive,
  )
  clock.settle = async () => {
    await read()
    for (let turn = 0; turn < TURNS; turn++) await nextTurn()
  }
  const lag = Math.max(...origins.map(({ lagMs = 0 }) => lagMs))
  const replay = new RunningReplay(clock, engine, publisher, archive, lag)
  for (const [feedID, spec] of Object.entries(settings.catalogue ?? {}))
    engine.catalogue.set(feedID, spec)
  for (const [index, script] of origins.entries())
    play(script, engine.origins[index] as EngineOrigin, clock)
  replay.begin()
  if (!settings.paused) clock.set({ isPaused: false })
  return replay.handle()
}

/** Applies a script to an origin. */
function play(script: OriginScript, origin: EngineOrigin, clock: ScaledClock): void {
  const { lagMs = 0, lose = 0 } = script
  if (lagMs > 0) origin.delay(lagMs)
  // Every report of a replay is one of its archive.
  if (lose !== 0) origin.drop(lose as Parameters<EngineOrigin['drop']>[0])
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
  readonly #archive: Archive
  /** The longest delay of an origin, in milliseconds. */
  readonly #lag: number
  /** The place of the next report in the order of publication. */
  #next: number
  /** The reports of the step that is being made. */
  #stepped: ReplayedReport[] | undefined
  #end: () => void = () => undefined
  readonly #ended: Promise<void> = new Promise(resolve => {
    this.#end = resolve
  })

  constructor(
    clock: ScaledClock,
    engine: DataEngine,
    publisher: Publisher,
    archive: Archive,
    lag: number,
  ) {
    this.#clock = clock
    this.#engine = engine
    this.#publisher = publisher
    this.#archive = archive
    this.#lag = lag
    this.#next = archive.placeAt(clock.Date.now() + 1)
  }

  /** Schedules the reports. Those before the beginning are history, which the archive has. */
  begin(): void {
    this.#schedule()
  }

  handle(): Replay {
    const own = this
    const clock = this.#clock
    const engine = this.#engine
    const close = async (): Promise<void> => {
      clock.end()
      own.#end()
      await engine.close()
      own.#archive.close()
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
        return own.#archive.length - own.#next
      },
      unstreamed: this.#archive.unstreamed,
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

  async #step(count: number): Promise<readonly ReplayedReport[]> {
    if (!this.#clock.isPaused)
      throw new ValidationError('step: the clock must stand still: call pause() first')
    const archive = this.#archive
    if (this.#next === archive.length) return []
    const last = archive.publishedAt(Math.min(this.#next + count, archive.length) - 1)
    const reports: ReplayedReport[] = []
    this.#stepped = reports
    await this.#clock.moveTo(last)
    this.#stepped = undefined
    return reports
  }

  #schedule(): void {
    if (this.#next === this.#archive.length) {
      const settle = () => void this.#clock.settle().then(this.#end)
      this.#clock.setTimeout(settle, this.#lag)
    } else {
      const delay = this.#archive.publishedAt(this.#next) - this.#clock.Date.now()
      this.#clock.setTimeout(() => this.#publish(), delay)
    }
  }

  /** Publishes the reports that came at one moment. */
  #publish(): void {
    const at = this.#clock.Date.now()
    while (this.#archive.publishedAt(this.#next) <= at) {
      const report = this.#archive.get(this.#next++)
      this.#stepped?.push(report)
      this.#publisher.publishRecorded(report)
    }
    this.#schedule()
  }
}
