import {
  type DenialFacts,
  EntitlementError,
  isDenial,
  type StreamCall,
} from '../client/contract/call.js'
import type { Handler, Plugin } from '../client/contract/plugin.js'
import type { PluginClient } from '../client/contract/scope.js'
import { abortable } from '../core/async.js'
import { asError, isStreamsError } from '../core/errors.js'
import { withTimeout } from '../core/lifetime.js'
import { checkOptions, type NoOptions } from '../core/options.js'

/** Milliseconds after which a request for the list of readable feeds has failed. */
const LIST_TIMEOUT = 5000
/**
 * Milliseconds for all requests about single feeds together. At 10 requests a second this is enough
 * for all feeds of a connection.
 */
const QUESTIONS_TIMEOUT = 15_000
/**
 * How many requests about single feeds run at the same time after one rejection. `rateLimit` spaces
 * them.
 */
const QUESTIONS_AT_ONCE = 5

/** Requests the list of readable feeds, or the newest report of a feed. */
type Ask<Answer> = (client: PluginClient, signal: AbortSignal, feedID: string) => Promise<Answer>

/** The result of examining the feeds of a rejected connection. */
interface Findings {
  /** The feeds that the service also refuses when they are requested singly. */
  readonly refused: readonly string[]
  /** True if the service accepted at least one request, which proves that the keys are right. */
  readonly isKeyGood: boolean
  /** False if the service did not answer every request. */
  readonly isComplete: boolean
}

/**
 * Finds the feeds of a stream that the key may not read. If a stream has such a feed, the service
 * rejects the whole connection, as it does for wrong credentials, and does not name the feed.
 *
 * The plugin requests the list of readable feeds. The list lacks custom and hidden feeds, so the
 * plugin then requests each feed singly that is missing from the list. The EntitlementError
 * names the feeds that are refused then, and the stream continues without them. If every feed can
 * be read, the plugin connects once more. If the service accepts no request at all, or does not
 * answer, the rejection stands.
 *
 * The plugin stands between `retry` and `hmacAuth`.
 */
export function feedAccess(none?: NoOptions): Plugin<never> {
  checkOptions('feedAccess', none, {})
  return { name: 'feed-access', attempt: nameFeeds }
}

function nameFeeds(next: Handler): Handler {
  /** Readable feeds that the list lacks. The feed that was requested last is at the end. */
  const confirmed = new Set<string>()

  /**
   * Requests each of these feeds singly. Feeds that were never readable come first. The other feeds
   * follow, beginning with the oldest answer.
   */
  async function askEach(suspects: readonly string[], call: StreamCall): Promise<Findings> {
    const order = [...confirmed].filter(feedID => suspects.includes(feedID))
    const waiting = [...suspects.filter(feedID => !confirmed.has(feedID)), ...order]
    const refused: string[] = []
    let isKeyGood = false
    let isComplete = true

    async function askNext(signal: AbortSignal): Promise<void> {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        const answer = await answerOf('feed ', call, signal, askForFeed, id)
        confirmed.delete(id)
        if (answer === undefined) {
          // The service does not answer: send no more requests.
          waiting.length = 0
          isComplete = false
        } else if (answer) {
          confirmed.add(id)
          isKeyGood = true
        } else refused.push(id)
      }
    }
    await withTimeout(
      QUESTIONS_TIMEOUT,
      noAnswer(QUESTIONS_TIMEOUT),
      signal => Promise.all(Array.from({ length: QUESTIONS_AT_ONCE }, () => askNext(signal))),
      call.signal,
    )
    const inOrder = suspects.filter(feedID => refused.includes(feedID))
    return { refused: inOrder, isKeyGood, isComplete }
  }

  /** Examines the feeds of a rejected call. Returns undefined if the list is not available. */
  async function examine(call: StreamCall): Promise<Findings | undefined> {
    const listed = await answerOf(
      'list of the feeds that may be read',
      call,
      call.signal,
      listFeeds,
    )
    if (listed === undefined) return undefined
    const suspects = call.scope.feedIDs.filter(feedID => !listed.has(feedID))
    const findings = await askEach(suspects, call)
    return { ...findings, isKeyGood: findings.isKeyGood || listed.size > 0 }
  }

  return async function openReadable(call) {
    if (call.kind !== 'stream') return next(call)
    try {
      return await next({ ...call, headers: new Headers(call.headers) })
    } catch (thrown) {
      const isRejected = isDenial(thrown) && !thrown.isCorrected
      if (call.signal.aborted || !isRejected) throw thrown
      const findings = await examine(call)
      if (call.signal.aborted) throw call.signal.reason
      // An empty list does not prove that the keys are right: a key may lack the permission to list
      // feeds.
      if (findings === undefined || !findings.isKeyGood) throw thrown
      if (findings.refused.length > 0) throw errorOf(findings.refused, thrown)
      if (!findings.isComplete) throw thrown
      call.scope.log.warn?.(
        'connecting again: a connection was rejected, but its feeds may be read',
      )
      return next(call)
    }
  }
}

/** Resolves with undefined if the request fails. */
async function answerOf<Answer>(
  subject: string,
  { scope: { client, log } }: StreamCall,
  signal: AbortSignal,
  ask: Ask<Answer>,
  feedID = '',
): Promise<Answer | undefined> {
  try {
    return await ask(client, signal, feedID)
  } catch (thrown) {
    log.warn?.(`${subject}${feedID}: the request failed: ${asError(thrown).message}`)
    return undefined
  }
}

async function listFeeds(client: PluginClient, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const list = (limited: AbortSignal): Promise<readonly { readonly feedID: string }[]> =>
    abortable(client.listFeeds({ signal: limited }), limited)
  const feeds = await withTimeout(LIST_TIMEOUT, noAnswer(LIST_TIMEOUT), list, signal)
  return new Set(feeds.map(({ feedID }) => feedID))
}

/** Returns false if the service refuses the feed. Rejects if the service does not answer. */
async function askForFeed(
  client: PluginClient,
  signal: AbortSignal,
  feedID: string,
): Promise<boolean> {
  try {
    await abortable(client.getLatestReport(feedID, { signal }), signal)
  } catch (thrown) {
    if (isDenial(thrown) && !thrown.isCorrected) return false
    // Any other answer shows that the feed may be read, such as 404 for a feed without a report.
    const isAnswer = isStreamsError(thrown) && !thrown.isRetryable && !signal.aborted
    if (!isAnswer) throw thrown
  }
  return true
}

const noAnswer = (ms: number) => (): Error => new Error(`no answer within ${ms} ms`)

function errorOf(feedIDs: readonly string[], cause: DenialFacts): EntitlementError {
  const what = feedIDs.length === 1 ? 'a feed does' : `${feedIDs.length} feeds do`
  const { statusCode, serverTime, retryAfter } = cause
  return new EntitlementError(
    `${what} not exist, or may not be read with this key: ${feedIDs.join(', ')}`,
    { statusCode, serverTime, retryAfter, feedIDs, cause },
  )
}
