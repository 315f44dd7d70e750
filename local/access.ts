import { ValidationError } from '../core/errors.js'
import { checkBoolean } from '../core/options.js'
import { type Credentials, unauthorized } from './auth.js'
import type { Feed } from './feeds.js'
import { checkCredentials } from './options.js'

/** The accepted credentials, and the feeds they may read. */
export interface Access {
  /** Updated by `rotateKeys`. */
  readonly credentials: Credentials
  /** Finds a feed by its lower-case id. Throws the same 401 for an unknown feed and for one that may not be read. */
  readonly findFeed: (feedID: string) => Feed
  /** The ids of the feeds that may be read. */
  readonly entitled: () => string[]
  readonly entitle: (feedID: string, isEntitled: boolean) => void
  readonly rotateKeys: (to: Partial<Credentials>) => void
}

/** The access to all feeds, by lower-case id, at the start. */
export function createAccess(feeds: Map<string, Feed>, initial: Credentials): Access {
  const credentials = { apiKey: initial.apiKey, userSecret: initial.userSecret }

  return {
    credentials,
    findFeed(id) {
      const feed = feeds.get(id)
      if (feed === undefined) throw unauthorized(`unknown feed ${id}`)
      if (!feed.entitled) throw unauthorized(`not entitled to feed ${id}`)
      return feed
    },
    entitled: () => [...feeds.values()].filter(feed => feed.entitled).map(({ feedID }) => feedID),
    entitle(feedID, isEntitled) {
      const feed = feeds.get(feedID.toLowerCase())
      if (feed === undefined) throw new ValidationError(`entitle: there is no feed ${feedID}`)
      const entitled = checkBoolean('entitle: isEntitled', isEntitled)
      feeds.set(feed.feedID, { ...feed, entitled })
    },
    rotateKeys(to) {
      Object.assign(
        credentials,
        checkCredentials({
          apiKey: to?.apiKey ?? credentials.apiKey,
          userSecret: to?.userSecret ?? credentials.userSecret,
        }),
      )
    },
  }
}
