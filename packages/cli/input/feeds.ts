import { findFeed, type KnownFeed, knownFeeds } from 'sluice'
import type { Feed, Rest } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { isFeedID, parseFeedID } from 'sluice/report'
import type { IO } from '../io.js'
import type { Service } from '../service/service.js'

/** What the argument of a command that takes feeds is. */
export const feedText = 'a feed: its id, or a name such as ETH/USD'

/** The same of an argument of several. */
export const feedsText: string = `${feedText}; several, also separated by commas`

/**
 * Finds the feeds of arguments: ids, or names such as ETH/USD, each maybe several separated by commas. The known feeds have the
 * names of the service's networks; elsewhere, and for others, the service is asked which feeds it has.
 */
export async function findFeeds(
  given: readonly string[],
  client: Pick<Rest, 'listFeeds'>,
  { network }: Pick<Service, 'network'>,
  { signal }: IO,
): Promise<readonly Feed[]> {
  const texts = given.flatMap(text => text.split(',')).map(text => text.trim())
  let listed: Promise<readonly Feed[]> | undefined
  const list = (): Promise<readonly Feed[]> => {
    listed ??= listNamed(client, signal)
    return listed
  }
  const found = new Map<string, Feed>()
  for (const text of texts) {
    const feed = knownOf(text, network) ?? (await list()).find(({ name }) => isNamed(name, text))
    if (feed === undefined) throw noFeed(text, 'a feed that is known or that the service lists')
    found.set(feed.feedID, feed)
  }
  return [...found.values()]
}

/** The feed of an argument that must be a single one. */
export async function findOneFeed(
  given: string,
  ...rest: [Pick<Rest, 'listFeeds'>, Pick<Service, 'network'>, IO]
): Promise<Feed> {
  const [feed, other] = await findFeeds([given], ...rest)
  if (feed === undefined || other !== undefined)
    throw new ValidationError('the feed must be a single one')
  return feed
}

function knownOf(text: string, network: Service['network']): Feed | undefined {
  // What begins so is meant to be an id, and is an error where it is none.
  if (/^0x/i.test(text) || isFeedID(text)) return factsOf(parseFeedID(text))
  if (network === undefined) return undefined
  return Object.values<KnownFeed>(knownFeeds[network]).find(({ name }) => isNamed(name, text))
}

/** The known feeds of arguments where no service is asked: of a name, those of both networks. */
export function findKnownFeeds(given: string): readonly Feed[] {
  return given.split(',').flatMap(each => {
    const text = each.trim()
    const feeds = [knownOf(text, 'mainnet'), knownOf(text, 'testnet')].filter(isFound)
    if (feeds.length === 0) throw noFeed(text, 'a known feed')
    return feeds
  })
}

function isFound(feed: Feed | undefined): feed is Feed {
  return feed !== undefined
}

function noFeed(text: string, named: string): ValidationError {
  return new ValidationError(
    `${JSON.stringify(text.slice(0, 80))} is no feed: it must be 0x and 64 hexadecimal digits, or the name of ${named}`,
  )
}

/** What is known of a feed. */
export function factsOf(feedID: string): Feed {
  return findFeed(feedID) ?? { feedID }
}

async function listNamed(
  client: Pick<Rest, 'listFeeds'>,
  signal: AbortSignal,
): Promise<readonly Feed[]> {
  return (await client.listFeeds({ signal })).map(feed => ({ ...factsOf(feed.feedID), ...feed }))
}

function isNamed(name: string | undefined, text: string): boolean {
  return name !== undefined && bare(name) === bare(text)
}

/** A name without what people write differently: ETH/USD, eth-usd, ethusd. */
function bare(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}
