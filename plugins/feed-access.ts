import type { Reply, StreamCall } from '../client/call.js'
import { AuthenticationError } from '../client/errors.js'
import { onConnected } from '../client/on-connected.js'
import type { Handler, Plugin } from '../client/plugin.js'
import { feedsOfURL, narrowURL } from '../client/stream/shards/plan.js'
import { abortable } from '../core/abortable.js'
import { asError, isStreamsError } from '../core/errors.js'
import { createLifetime } from '../core/lifetime.js'

/** Milliseconds the service has to name the feeds that may be read. */
const PATIENCE = 5000

/** A look at the list of the feeds that may be read. */
interface Look {
  /** Undefined where the list can't be had. */
  readonly feedIDs: Promise<ReadonlySet<string> | undefined>
  /** The call that it was made for has ended before the answer came. */
  isCutOff: boolean
}

/**
 * Finds out which feeds of a stream may not be read. The service refuses the whole connection then, as it does for wrong
 * credentials, and does not say which. So it is asked for the feeds that may be read, and the connection is dialled again
 * with those of them. Where it is let in, the others were to blame: they leave the stream, with an AuthenticationError that
 * names them. Where nothing can be found out, the refusal stands.
 *
 * It stands between `retry` and `hmacAuth`.
 */
export function feedAccess(): Plugin<never> {
  return { name: 'feed-access', attempt: dialReadable }
}

function dialReadable(next: Handler): Handler {
  let asking: Look | undefined

  /** What may be read now. One look serves all who want to know at the same time. */
  async function readable(call: StreamCall): Promise<ReadonlySet<string> | undefined> {
    for (;;) {
      asking ??= look(call)
      const asked = asking
      const found = await abortable(asked.feedIDs, call.signal).finally(() => {
        if (asking === asked) asking = undefined
      })
      if (!asked.isCutOff) return found
    }
  }

  async function dial(call: StreamCall): Promise<Reply> {
    const { scope, signal } = call
    const wanted = wantedOf(call)
    let refusal: AuthenticationError
    try {
      return await next(attemptOf(call, wanted))
    } catch (thrown) {
      if (signal.aborted || !isStreamsError(thrown, 'AUTHENTICATION')) throw thrown
      refusal = thrown
    }
    // Another connection of the stream may have found it out meanwhile.
    if (wantedOf(call).length < wanted.length) return dial(call)
    const list = await readable(call)
    // An empty list may as well mean that lists are none of the key's business.
    if (list === undefined || list.size === 0) throw refusal
    const denied = wanted.filter(feedID => !list.has(feedID))
    if (denied.length === 0) throw refusal
    const error = deniedError(denied, refusal)
    if (denied.length < wanted.length) return dialOthers(call, denied, error)
    scope.deny(denied, error)
    throw error
  }

  /** Dials without the feeds that may be to blame; they are, if that is let in. */
  async function dialOthers(
    call: StreamCall,
    denied: readonly string[],
    error: AuthenticationError,
  ): Promise<Reply> {
    const { scope } = call
    const forget = onConnected(call, () => scope.deny(denied, error))
    const others = wantedOf(call).filter(feedID => !denied.includes(feedID))
    scope.log.warn?.(`dialled again for ${others.length} feeds, after: ${error.message}`)
    try {
      return await next(attemptOf(call, others))
    } catch (thrown) {
      throw isStreamsError(thrown, 'AUTHENTICATION') ? error.cause : thrown
    } finally {
      forget()
    }
  }

  return function dialStream(call) {
    return call.kind === 'stream' ? dial(call) : next(call)
  }
}

/** The feeds of the call's URL that have not been refused yet. */
function wantedOf({ url, scope }: StreamCall): readonly string[] {
  return feedsOfURL(url).filter(feedID => scope.feedIDs.includes(feedID))
}

function attemptOf(call: StreamCall, feedIDs: readonly string[]): StreamCall {
  return { ...call, url: narrowURL(call.url, feedIDs), headers: new Headers(call.headers) }
}

function look({ scope, signal }: StreamCall): Look {
  const life = createLifetime(signal)
  const timer = setTimeout(() => life.end(new Error(`no answer within ${PATIENCE} ms`)), PATIENCE)

  async function ask(): Promise<ReadonlySet<string> | undefined> {
    try {
      const feeds = await abortable(scope.listFeeds(life.signal), life.signal)
      return new Set(feeds.map(({ feedID }) => feedID))
    } catch (thrown) {
      made.isCutOff = signal.aborted
      const { message } = asError(thrown)
      scope.log.warn?.(`which feeds may be read could not be learned: ${message}`)
      return undefined
    } finally {
      clearTimeout(timer)
      life.end()
    }
  }
  const made: Look = { feedIDs: ask(), isCutOff: false }
  return made
}

function deniedError(feedIDs: readonly string[], cause: AuthenticationError): AuthenticationError {
  const what = feedIDs.length === 1 ? 'a feed does' : `${feedIDs.length} feeds do`
  const { statusCode, serverTime, retryAfter } = cause
  return new AuthenticationError(
    `${what} not exist, or may not be read with this key: ${feedIDs.join(', ')}`,
    { statusCode, serverTime, retryAfter, feedIDs, cause },
  )
}
