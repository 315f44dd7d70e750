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

/** The stream, and what its subjects begin with, unless options say otherwise. */
export const DEFAULT_STREAM = 'SLUICE'
export const DEFAULT_PREFIX = 'sluice'

/** One of several equal shares of the feeds. */
export interface Share {
  /** Which share it is, from 0 on. */
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

/** The last part of a subject: its feed, where it is of a log. */
export function feedPart(subject: string): string {
  return subject.slice(subject.lastIndexOf('.') + 1)
}

/** The subject under which only the workers of one queue get a feed's reports again. */
export function againSubject(prefix: string, queue: string, feedID: string): string {
  return `${prefix}.${queue}-again.${feedID}`
}

/** The subject of dead letters: of a feed, or of all feeds of a queue; `>` are all. */
export function deadSubject(prefix: string, queue: string, feedID?: string): string {
  return `${prefix}-dead.${queue}${feedID === undefined ? '' : `.${feedID}`}`
}

/** The feed of a subject; undefined for a subject of another form. */
export function feedOf(prefix: string, subject: string): string | undefined {
  const feedID = feedPart(subject)
  return isFeedID(feedID) && subject === subjectOf(prefix, feedID) ? feedID : undefined
}

/** Those of the feeds that belong to a share: each feed belongs to one, by a hash of its id. */
export function feedsOfShare(feedIDs: readonly string[], share: Share): readonly string[] {
  const { index, of } = checkShare(share)
  return feedIDs.filter(feedID => hash(feedID.toLowerCase()) % of === index)
}

/** FNV-1a over the characters. */
function hash(text: string): number {
  let value = 0x811c_9dc5
  for (let at = 0; at < text.length; at++)
    value = Math.imul(value ^ text.charCodeAt(at), 0x0100_0193)
  // The low bits of FNV are poor.
  return (value ^ (value >>> 15)) >>> 0
}

/** Checks a share of the feeds. */
export function checkShare(value: Share): Share {
  const share = readOptions('share', checkObject('share', value), shareSchema, 'share.')
  checkNumber('share.index', share.index, { min: 0, max: share.of - 1 })
  return share
}

/** A name that NATS takes for a stream, a bucket or a consumer. */
export function checkName(field: string, value: unknown): string {
  const name = checkText(field, value)
  if (!/^[\w-]{1,64}$/.test(name))
    throw new ValidationError(`${field} must be at most 64 letters, digits, - and _`)
  return name
}

/** The beginning of subjects: names, separated by dots. */
export function checkPrefix(field: string, value: unknown): string {
  const prefix = checkText(field, value)
  if (!/^[\w-]+(\.[\w-]+)*$/.test(prefix) || prefix.length > 64)
    throw new ValidationError(
      `${field} must be names of letters, digits, - and _, separated by dots, and at most 64 characters`,
    )
  return prefix
}
