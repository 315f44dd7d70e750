import type { StreamConfig, StreamInfo } from '@nats-io/jetstream'
import { number, readOptions, type Schema, withDefault } from 'sluice/core'
import { logError, noStream, RelayLogError } from './errors.js'
import { keepTrying, type ReportLog } from './log.js'
import { isAPIError } from './refusals.js'
import { allSubjects } from './subjects.js'

/** The settings of a stream that a relay creates. */
export interface CreateOptions {
  /** How many servers each hold a copy, 1 to 5. @default 1 */
  readonly replicas?: number
  /** How many hours a report is stored. @default 24 */
  readonly hours?: number
  /**
   * How many bytes are stored at most. Above this limit, the oldest reports are removed. The stream
   * of dead letters and the bucket of cursors have at most as many bytes each.
   * @default 8589934592
   */
  readonly bytes?: number
}

const schema = {
  replicas: withDefault(1, number({ min: 1, max: 5, whole: true })),
  hours: withDefault(24, number({ min: 1, max: 87_600 })),
  bytes: withDefault(8_589_934_592, number({ min: 1_048_576, whole: true })),
} satisfies Schema<CreateOptions>

/**
 * `duplicate_window` of a new stream: minutes within which the log recognises a duplicate. A relay
 * that was away sends some reports again.
 */
const DUPLICATE_MINUTES = 10
/** The shortest `duplicate_window` that an existing stream may have, in minutes. */
const LEAST_DUPLICATE_MINUTES = 2
const MINUTE = 60_000_000_000
const HOUR = 60 * MINUTE
/**
 * The smallest `max_msg_size` that an existing stream may have, in bytes. The frame of a report has
 * about 1500 bytes.
 */
const LEAST_MESSAGE = 65_536

/**
 * Milliseconds for which a log that does not answer is asked again. Its servers may be electing a
 * leader.
 */
const PATIENCE = 30_000
const RETRY_AFTER = 250

/**
 * Makes sure that the stream exists and has suitable settings. Throws a RelayLogError that names
 * each unsuitable setting.
 */
export function prepareStream(
  log: ReportLog,
  create: Required<CreateOptions> | undefined,
): Promise<StreamInfo> {
  return keepTrying(log.connection, () => checkStream(log, create), PATIENCE, RETRY_AFTER)
}

async function checkStream(
  log: ReportLog,
  create: Required<CreateOptions> | undefined,
): Promise<StreamInfo> {
  const info = await log.info().catch(thrown => {
    const isMissing = /does not exist/.test((thrown as Error).message)
    if (!isMissing) throw thrown
    if (create === undefined) throw noStream(log.stream)
    return createStream(log, create)
  })
  const wrong = wrongSettings(info.config, log.prefix)
  if (wrong.length === 0) return info
  throw new RelayLogError(`stream ${log.stream} does not serve: ${wrong.join('; ')}`)
}

/** Checks the option `create` of a relay; undefined if no stream is to be created. */
export function checkCreate(
  value: boolean | CreateOptions | undefined,
): Required<CreateOptions> | undefined {
  if (value === undefined || value === false) return undefined
  return readOptions('create', value === true ? {} : value, schema, 'create.')
}

async function createStream(
  log: ReportLog,
  { replicas, hours, bytes }: Required<CreateOptions>,
): Promise<StreamInfo> {
  const { manager } = await log.access()
  try {
    return await manager.streams.add({
      name: log.stream,
      subjects: [allSubjects(log.prefix)],
      retention: 'limits',
      storage: 'file',
      discard: 'old',
      max_age: Math.round(hours * HOUR),
      max_bytes: bytes,
      duplicate_window: DUPLICATE_MINUTES * MINUTE,
      allow_direct: true,
      num_replicas: replicas,
    })
  } catch (thrown) {
    // If the stream exists now, another relay was faster.
    if (isAPIError(thrown, 'streamExists')) return log.info()
    throw logError(`stream ${log.stream} could not be created`, thrown)
  }
}

/**
 * `max_bytes` of a new stream that holds what belongs to a log: as many as it needs, but not more
 * than the log has. An account may limit the bytes of each stream.
 */
export function bytesBeside(log: Pick<StreamConfig, 'max_bytes'>, needed: number): number {
  return log.max_bytes > 0 ? Math.min(needed, log.max_bytes) : needed
}

/** The rules of a relay that a stream's settings break, each with the name of the setting. */
export function wrongSettings(config: StreamConfig, prefix: string): readonly string[] {
  // A mirror takes no messages.
  if (config.mirror !== undefined)
    return [`mirror must not be set: relays publish to ${config.mirror.name}, where it copies from`]
  const subject = allSubjects(prefix)
  // A stream that only has sources has no subjects.
  const { subjects = [] } = config as { subjects?: readonly string[] }
  const window = config.duplicate_window / MINUTE
  return brokenOf([
    [
      subjects.some(each => covers(each, subject)),
      `subjects must hold ${subject}, not ${subjects.join(', ') || 'none'}`,
    ],
    [config.no_ack !== true, 'no_ack must be false'],
    [config.sealed !== true, 'sealed must be false'],
    [
      window >= LEAST_DUPLICATE_MINUTES,
      `duplicate_window must be at least ${LEAST_DUPLICATE_MINUTES} minutes, not ${window}`,
    ],
    [
      config.max_msg_size <= 0 || config.max_msg_size >= LEAST_MESSAGE,
      `max_msg_size must be -1 or at least ${LEAST_MESSAGE}, not ${config.max_msg_size}`,
    ],
    ...readingRules(config),
  ])
}

/**
 * The rules that a stream's settings break for those who only read it. A mirror, or a stream with
 * sources, needs to keep no others.
 */
export function wrongForReaders(config: StreamConfig): readonly string[] {
  return brokenOf(readingRules(config))
}

/** A rule of settings, and whether they keep it. */
type Rule = readonly [isGood: boolean, rule: string]

function readingRules(config: StreamConfig): readonly Rule[] {
  return [
    [config.retention === 'limits', `retention must be limits, not ${config.retention}`],
    [config.allow_direct === true, 'allow_direct must be true'],
    [
      config.max_msgs_per_subject <= 0,
      `max_msgs_per_subject must be -1, not ${config.max_msgs_per_subject}`,
    ],
  ]
}

function brokenOf(rules: readonly Rule[]): readonly string[] {
  return rules.flatMap(([isGood, rule]) => (isGood ? [] : [rule]))
}

/** True if a subject with wildcards matches everything that another subject matches. */
function covers(one: string, other: string): boolean {
  const [parts, others] = [one.split('.'), other.split('.')]
  for (const [at, part] of parts.entries()) {
    if (part === '>') return others.length > at
    if (at >= others.length || (part !== '*' && part !== others[at])) return false
  }
  return parts.length === others.length
}
