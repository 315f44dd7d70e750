import { checkBoolean, checkOptions, ValidationError } from 'sluice/core'
import { type Credentials, createRateLimit, unauthorized } from './auth.js'
import type { Feed } from './feeds.js'
import { checkCredentials, type Settings } from './options.js'

/** The accepted credentials, and the feeds they may read. */
export interface Access {
  readonly credentials: Credentials
  /** Finds a feed by its lower-case id. Throws the same 401 for an unknown feed and for one that may not be read. */
  readonly findFeed: (feedID: string) => Feed
  readonly entitled: () => string[]
  /** Counts a request of the key at an endpoint. Throws 429 if there are too many. */
  readonly count: (endpoint: string, now: number) => void
  readonly entitle: (feedID: string, isEntitled: boolean) => void
  readonly rotateKeys: (to: Partial<Credentials>) => void
}

/** The access to all feeds, by lower-case id, at the start. */
export function createAccess(feeds: Map<string, Feed>, settings: Settings): Access {
  const credentials = { apiKey: settings.apiKey, userSecret: settings.userSecret }
  const countRequest = createRateLimit(settings.rateLimit)

  return {
    credentials,
    findFeed(id) {
      const feed = feeds.get(id)
      if (feed === undefined) throw unauthorized(`unknown feed ${id}`)
      if (!feed.entitled) throw unauthorized(`not entitled to feed ${id}`)
      return feed
    },
    entitled: () => [...feeds.values()].filter(feed => feed.entitled).map(({ feedID }) => feedID),
    count: (endpoint, now) => countRequest(`${credentials.apiKey} ${endpoint}`, now),
    entitle(feedID, isEntitled) {
      const feed = feeds.get(feedID.toLowerCase())
      if (feed === undefined) throw new ValidationError(`entitle: there is no feed ${feedID}`)
      const entitled = checkBoolean('entitle: isEntitled', isEntitled)
      feeds.set(feed.feedID, { ...feed, entitled })
    },
    rotateKeys(to) {
      const { apiKey = credentials.apiKey, userSecret = credentials.userSecret } = checkOptions(
        'rotateKeys',
        to,
        { apiKey: true, userSecret: true },
      )
      Object.assign(credentials, checkCredentials({ apiKey, userSecret }))
    },
  }
}
