import { AuthenticationError, type StreamCall } from '../client/contract/call.js'
import type { Handler, Plugin } from '../client/contract/plugin.js'
import type { PluginClient, StreamScope } from '../client/contract/scope.js'
import { abortable } from '../core/async.js'
import { asError, isStreamsError } from '../core/errors.js'
import { createLifetime, type Lifetime } from '../core/lifetime.js'
import { checkOptions, type NoOptions } from '../core/options.js'

/** Milliseconds the service has to list the feeds that may be read. */
const LIST_TIMEOUT = 5000
/** Milliseconds for the questions about single feeds: at 10 a second, time for all feeds of a connection. */
const QUESTIONS_TIMEOUT = 15_000
/** Questions of one rejection that wait for an answer at the same time; `rateLimit` spaces them. */
const QUESTIONS_AT_ONCE = 5

/** A request for the list, or for the newest report of a feed. */
type Ask<Answer> = (client: PluginClient, signal: AbortSignal, feedID: string) => Promise<Answer>

/** What is known of the feeds of a rejected connection. */
interface Findings {
  /** The service refuses them one by one, too. */
  readonly refused: readonly string[]
  /** True where at least one request was accepted, so that the keys are right. */
  readonly isKeyGood: boolean
  /** False where the service did not answer every question. */
  readonly isComplete: boolean
}

/**
 * Finds the feeds of a stream that may not be read. For these, the service rejects the whole connection, as for wrong
 * credentials, and does not name them. The plugin requests the list of readable feeds; each feed that the list lacks is
 * asked for by itself, since the list has no custom and no hidden feeds. Feeds that are refused then are named in the
 * AuthenticationError, and the stream continues without them. If every feed can be read, the plugin connects once more. If
 * the service accepts no request at all, or does not answer, the rejection stands.
 *
 * It stands between `retry` and `hmacAuth`.
 */
export function feedAccess(none?: NoOptions): Plugin<never> {
  checkOptions('feedAccess', none, {})
  return { name: 'feed-access', attempt: nameFeeds }
}

function nameFeeds(next: Handler): Handler {
  const list = share('list of the feeds that may be read', listFeeds)
  const isReadable = share('feed ', askForFeed)
  /** Feeds that the list lacks and that were readable, the one asked last at the end. */
  const confirmed = new Set<string>()

  /** Asks for each of these feeds by itself: first those that were never readable, then the others, oldest answer first. */
  async function askEach(suspects: readonly string[], call: StreamCall): Promise<Findings> {
    const order = [...confirmed].filter(feedID => suspects.includes(feedID))
    const waiting = [...suspects.filter(feedID => !confirmed.has(feedID)), ...order]
    const life = startTimed(call.signal, QUESTIONS_TIMEOUT)
    const refused: string[] = []
    let isKeyGood = false
    let isComplete = true

    async function askNext(): Promise<void> {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        const answer = await isReadable(call, life.signal, id).catch(() => undefined)
        confirmed.delete(id)
        if (answer === undefined) {
          // The service is away: no further question.
          waiting.length = 0
          isComplete = false
        } else if (answer) {
          confirmed.add(id)
          isKeyGood = true
        } else refused.push(id)
      }
    }
    await Promise.all(Array.from({ length: QUESTIONS_AT_ONCE }, askNext))
    life.end()
    const inOrder = suspects.filter(feedID => refused.includes(feedID))
    return { refused: inOrder, isKeyGood, isComplete }
  }

  /** Undefined where the list is not available. */
  async function examine(call: StreamCall): Promise<Findings | undefined> {
    const listed = await list(call, call.signal)
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
      const isRejected = isStreamsError(thrown, 'AUTHENTICATION') && !thrown.isCorrected
      if (call.signal.aborted || !isRejected) throw thrown
      const findings = await examine(call)
      if (call.signal.aborted) throw call.signal.reason
      // An empty list may also mean that the key may not list feeds.
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

/** A request that is under way. */
interface Asked<Answer> {
  /** Undefined where the request fails. */
  readonly answer: Promise<Answer | undefined>
  /** True once the call that made the request has ended before the answer. */
  isCutOff: boolean
}

/** Calls that ask the same at the same time share a request. Resolves with undefined where that fails. */
function share<Answer>(subject: string, ask: Ask<Answer>) {
  const running = new Map<string, Asked<Answer>>()

  function begin({ client, log }: StreamScope, signal: AbortSignal, feedID: string): Asked<Answer> {
    async function settle(): Promise<Answer | undefined> {
      try {
        return await ask(client, signal, feedID)
      } catch (thrown) {
        asked.isCutOff = signal.aborted
        log.warn?.(`${subject}${feedID}: the request failed: ${asError(thrown).message}`)
        return undefined
      } finally {
        running.delete(feedID)
      }
    }
    const asked: Asked<Answer> = { answer: settle(), isCutOff: false }
    running.set(feedID, asked)
    return asked
  }

  return async function askOnce(
    { scope }: StreamCall,
    signal: AbortSignal,
    feedID = '',
  ): Promise<Answer | undefined> {
    for (;;) {
      const asked = running.get(feedID) ?? begin(scope, signal, feedID)
      const answer = await abortable(asked.answer, signal)
      if (!asked.isCutOff) return answer
    }
  }
}

async function listFeeds(client: PluginClient, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const life = startTimed(signal, LIST_TIMEOUT)
  try {
    const feeds = await abortable(client.listFeeds({ signal: life.signal }), life.signal)
    return new Set(feeds.map(({ feedID }) => feedID))
  } finally {
    life.end()
  }
}

/** False where the service refuses the feed; rejects where it does not answer. */
async function askForFeed(
  client: PluginClient,
  signal: AbortSignal,
  feedID: string,
): Promise<boolean> {
  try {
    await abortable(client.getLatestReport(feedID, { signal }), signal)
  } catch (thrown) {
    if (isStreamsError(thrown, 'AUTHENTICATION') && !thrown.isCorrected) return false
    // An answer of another kind, such as 404 for a feed without a report yet, is of a feed that may be read.
    const isAnswer = isStreamsError(thrown) && !thrown.isRetryable && !signal.aborted
    if (!isAnswer) throw thrown
  }
  return true
}

/** A lifetime that ends after so many milliseconds at the latest. */
function startTimed(signal: AbortSignal, ms: number): Lifetime {
  const life = createLifetime(signal)
  const timer = setTimeout(() => life.end(new Error(`no answer within ${ms} ms`)), ms)
  life.defer(() => clearTimeout(timer))
  return life
}

function errorOf(feedIDs: readonly string[], cause: AuthenticationError): AuthenticationError {
  const what = feedIDs.length === 1 ? 'a feed does' : `${feedIDs.length} feeds do`
  const { statusCode, serverTime, retryAfter } = cause
  return new AuthenticationError(
    `${what} not exist, or may not be read with this key: ${feedIDs.join(', ')}`,
    { statusCode, serverTime, retryAfter, feedIDs, cause },
  )
}
