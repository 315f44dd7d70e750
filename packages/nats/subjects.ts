import {
  checkNumber,
  checkText,
  number,
  readOptions,
  type Schema,
  ValidationError,
} from 'sluice/core'
import { checkObject } from 'sluice/internal'
import { feedVersion, isFeedID } from 'sluice/report'

/** The default name of the stream. */
export const DEFAULT_STREAM = 'SLUICE'
/** The default prefix of the stream's subjects. */
export const DEFAULT_PREFIX = 'sluice'

/** One of several equal shares of the feeds. */
export interface Share {
  /** The number of this share, from 0. */
  readonly index: number
  /** How many shares there are. */
  readonly of: number
}

const shareSchema = {
  index: number({ min: 0, whole: true }),
  of: number({ min: 1, max: 65_536, whole: true }),
} satisfies Schema<Share>

/** The subject of a feed's reports: `PREFIX.VERSION.FEED`. */
export function subjectOf(prefix: string, feedID: string): string {
  return `${prefix}.${feedVersion(feedID)}.${feedID}`
}

/** The subjects of all feeds. */
export function allSubjects(prefix: string): string {
  return `${prefix}.*.*`
}

/** The last part of a subject. In the subjects of a log, that is the feed's id. */
export function feedPart(subject: string): string {
  return subject.slice(subject.lastIndexOf('.') + 1)
}

/** The subject for republishing a feed's reports to the workers of one queue only. */
export function againSubject(prefix: string, queue: string, feedID: string): string {
  return `${prefix}.${queue}-again.${feedID}`
}

/**
 * The subject of a feed's dead letters in a queue. With `*` as the feed, it covers all feeds of the
 * queue. With `>` as the queue and no feed, it covers all dead letters.
 */
export function deadSubject(prefix: string, queue: string, feedID?: string): string {
  return `${prefix}-dead.${queue}${feedID === undefined ? '' : `.${feedID}`}`
}

/** The feed of a subject; undefined for a subject of another form. */
export function feedOf(prefix: string, subject: string): string | undefined {
  const feedID = feedPart(subject)
  return isFeedID(feedID) && subject === subjectOf(prefix, feedID) ? feedID : undefined
}

/**
 * Returns the feeds that belong to a share. Each feed belongs to exactly one share, by a hash of
 * its id.
 */
export function feedsOfShare(feedIDs: readonly string[], share: Share): readonly string[] {
  const { index, of } = checkShare(share)
  return feedIDs.filter(feedID => hash(feedID.toLowerCase()) % of === index)
}

/** The FNV-1a hash of the characters. */
function hash(text: string): number {
  let value = 0x811c_9dc5
  for (let at = 0; at < text.length; at++)
    value = Math.imul(value ^ text.charCodeAt(at), 0x0100_0193)
  // Mixes in the high bits, because the low bits of FNV are poorly distributed.
  return (value ^ (value >>> 15)) >>> 0
}

/** Checks a share of the feeds. */
export function checkShare(value: Share): Share {
  const share = readOptions('share', checkObject('share', value), shareSchema, 'share.')
  checkNumber('share.index', share.index, { min: 0, max: share.of - 1 })
  return share
}

/** Checks a name that NATS accepts for a stream, a bucket or a consumer. */
export function checkName(field: string, value: unknown): string {
  const name = checkText(field, value)
  if (!/^[\w-]{1,64}$/.test(name))
    throw new ValidationError(`${field} must be at most 64 letters, digits, - and _`)
  return name
}

/** Checks a prefix of subjects: names that are separated by dots. */
export function checkPrefix(field: string, value: unknown): string {
  const prefix = checkText(field, value)
  if (!/^[\w-]+(\.[\w-]+)*$/.test(prefix) || prefix.length > 64)
    throw new ValidationError(
      `${field} must be names of letters, digits, - and _, separated by dots, and at most 64 characters`,
    )
  return prefix
}
