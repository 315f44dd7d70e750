import { AuthenticationError, type StreamCall } from '../client/call.js'
import type { Handler, Plugin } from '../client/plugin.js'
import { abortable } from '../core/abortable.js'
import { asError, isStreamsError } from '../core/errors.js'
import { createLifetime } from '../core/lifetime.js'
import { checkOptions, type NoOptions } from '../core/options.js'

/** Milliseconds the service has to list the feeds that may be read. */
const PATIENCE = 5000

/** A request for the list of the feeds that may be read. */
interface Listing {
  /** Undefined where the request fails. */
  readonly feedIDs: Promise<ReadonlySet<string> | undefined>
  /** True once the call that made the request has ended before the answer. */
  isCutOff: boolean
}

/**
 * Finds the feeds of a stream that may not be read. For these, the service rejects the whole connection, as for wrong
 * credentials, and does not name them. So the plugin requests the list of readable feeds and names the others in the
 * AuthenticationError; the stream continues without them. Where the list is not available, the rejection stands.
 *
 * It stands between `retry` and `hmacAuth`.
 */
export function feedAccess(none?: NoOptions): Plugin<never> {
  checkOptions('feedAccess', none, {})
  return { name: 'feed-access', attempt: nameFeeds }
}

function nameFeeds(next: Handler): Handler {
  let listing: Listing | undefined

  /** The feeds that may be read now. Calls at the same time share a request. */
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
      // An empty list may also mean that the key may not list feeds.
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
