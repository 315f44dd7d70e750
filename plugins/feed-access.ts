import { AuthenticationError, type StreamCall } from '../client/call.js'
import type { Handler, Plugin } from '../client/plugin.js'
import { abortable } from '../core/abortable.js'
import { asError, isStreamsError } from '../core/errors.js'
import { createLifetime } from '../core/lifetime.js'

/** Milliseconds the service has to list the feeds that may be read. */
const PATIENCE = 5000

/** A request for the list of the feeds that may be read. */
interface Listing {
  /** Undefined where the list can't be had. */
  readonly feedIDs: Promise<ReadonlySet<string> | undefined>
  /** The call that it was made for ended before the answer came. */
  isCutOff: boolean
}

/**
 * Finds out which feeds of a stream may not be read. The service rejects the whole connection then, as it does for wrong
 * credentials, and does not say which. So it is asked for the feeds that may be read; those that are not among them are named
 * by the AuthenticationError, and the stream goes on without them. Where nothing can be found out, the rejection stands.
 *
 * It stands between `retry` and `hmacAuth`.
 */
export function feedAccess(): Plugin<never> {
  return { name: 'feed-access', attempt: nameFeeds }
}

function nameFeeds(next: Handler): Handler {
  let listing: Listing | undefined

  /** The feeds that may be read now. One request serves all calls that ask at the same time. */
  async function readable(call: StreamCall): Promise<ReadonlySet<string> | undefined> {
    for (;;) {
      listing ??= listFeeds(call)
      const asked = listing
      const found = await abortable(asked.feedIDs, call.signal).finally(() => {
        if (listing === asked) listing = undefined
      })
      if (!asked.isCutOff) return found
    }
  }

  return async function openReadable(call) {
    if (call.kind !== 'stream') return next(call)
    try {
      return await next(call)
    } catch (thrown) {
      const isRejected = isStreamsError(thrown, 'AUTHENTICATION') && !thrown.isCorrected
      if (call.signal.aborted || !isRejected) throw thrown
      const list = await readable(call)
      // An empty list may as well mean that the key may not list feeds.
      if (list === undefined || list.size === 0) throw thrown
      const unreadable = call.scope.feedIDs.filter(feedID => !list.has(feedID))
      throw unreadable.length === 0 ? thrown : errorOf(unreadable, thrown)
    }
  }
}

function listFeeds({ scope, signal }: StreamCall): Listing {
  const life = createLifetime(signal)
  const timer = setTimeout(() => life.end(new Error(`no answer within ${PATIENCE} ms`)), PATIENCE)

  async function ask(): Promise<ReadonlySet<string> | undefined> {
    try {
      const request = scope.client.listFeeds({ signal: life.signal })
      const feeds = await abortable(request, life.signal)
      return new Set(feeds.map(({ feedID }) => feedID))
    } catch (thrown) {
      made.isCutOff = signal.aborted
      const { message } = asError(thrown)
      scope.log.warn?.(`the feeds that may be read could not be listed: ${message}`)
      return undefined
    } finally {
      clearTimeout(timer)
      life.end()
    }
  }
  const made: Listing = { feedIDs: ask(), isCutOff: false }
  return made
}

function errorOf(feedIDs: readonly string[], cause: AuthenticationError): AuthenticationError {
  const what = feedIDs.length === 1 ? 'a feed does' : `${feedIDs.length} feeds do`
  const { statusCode, serverTime, retryAfter } = cause
  return new AuthenticationError(
    `${what} not exist, or may not be read with this key: ${feedIDs.join(', ')}`,
    { statusCode, serverTime, retryAfter, feedIDs, cause },
  )
}
