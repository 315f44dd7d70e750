import {
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  type InspectedFeed,
  type InspectedReader,
  type Inspection,
  inspectLog,
} from '@sluice/nats'
import { asError } from 'sluice/core'
import { observedAt } from '../../output/feeds.js'
import { connectNats, type LogOptions } from '../../service/nats.js'
import { type Check, exitCodes, type Finding, failed, ok, warning } from '../check.js'
import { formatSeconds } from '../context.js'

/**
 * The check inspects at most this many readers, and at most this many feeds if the user gives none.
 */
const SOME = 20
/** If the last report of a feed is older than this many milliseconds, the check warns. */
const OLD = 60_000
/**
 * How many reports a reader may be behind before the check warns. A busy service sends this many in
 * a second.
 */
const BEHIND = 2000

/**
 * Checks whether a relay's log exists and has suitable settings, whether reports are written to it,
 * and whether its readers keep up.
 */
export const log: Check = {
  name: 'log',
  needs: ['packages'],
  exitCode: exitCodes.service,
  async run({ subject: { log: place, feedIDs, env } }, signal) {
    const options = place as LogOptions
    const { stream = DEFAULT_STREAM, prefix = DEFAULT_PREFIX } = options
    const connection = await connectNats(options, { env, signal }, false)
    try {
      const found = await inspectLog({ connection, stream, prefix }, feedIDs, SOME)
      return [
        ...describeStream(stream, found),
        ...found.feeds.map(describeFeed),
        ...describeOthers(found),
        ...found.readers.map(describeReader),
        ...found.denied.map(({ part, subject }) => leftOut(parts[part], subject)),
      ]
    } catch (thrown) {
      const denied = /permissions violation .*"([^"]+)"/i.exec(asError(thrown).message)?.[1]
      if (denied === undefined) throw thrown
      return [leftOut('look at the stream', denied)]
    } finally {
      await connection.close()
    }
  },
}

/** What a user must be allowed to do for each part of an inspection. */
const parts = { feeds: 'read reports', readers: 'list the readers' } as const

function leftOut(what: string, subject: string): Finding {
  return warning(
    `this user may not ${what} (${subject}): the check is left out`,
    'ask as a user with the permissions of the role monitor, in docs/reference/scale-out.md',
  )
}

function describeStream(stream: string, found: Inspection): readonly Finding[] {
  const { messages, bytes, replicas, wrong, behind } = found
  const text = `stream ${stream} serves: ${messages} reports, replicas: ${replicas}`
  const late = behind.map(({ name, lag }) =>
    warning(`server ${name} is ${lag} reports behind the others`, 'look at that server of NATS'),
  )
  if (wrong.length === 0) return [ok(text, { messages, bytes, replicas }), ...late]
  const advice = `nats stream edit ${stream}; sluice relay --create makes one that serves`
  return [...wrong.map(rule => failed(`stream ${stream} does not serve: ${rule}`, advice)), ...late]
}

function describeFeed({ feedID, latest }: InspectedFeed): Finding {
  if (latest === undefined)
    return failed(`${feedID} has no report in the log`, 'have the relay take it: --feeds', {
      feedID,
    })
  const ageMs = Date.now() - observedAt({ feedID, observationsTimestamp: latest })
  const text = `${feedID}: its last report is ${formatSeconds(ageMs)} old`
  const facts = { feedID, ageMs }
  if (ageMs <= OLD) return ok(text, facts)
  return warning(
    text,
    'see whether sluice relay runs; a closed market has no reports either',
    facts,
  )
}

function describeOthers({ feeds, otherFeeds, denied }: Inspection): readonly Finding[] {
  if (denied.some(({ part }) => part === 'feeds')) return []
  if (feeds.length === 0)
    return [warning('no report is in the log', 'start sluice relay, or read what it says')]
  return otherFeeds === 0 ? [] : [ok(`${otherFeeds} more feeds are in the log; name some`)]
}

function describeReader({ name, lag, unacknowledged }: InspectedReader): Finding {
  const text = `reader ${name} is ${lag} reports behind`
  const facts = { reader: name, lag, unacknowledged }
  if (lag <= BEHIND) return ok(text, facts)
  return warning(text, 'see that its workers run, or start more', facts)
}
