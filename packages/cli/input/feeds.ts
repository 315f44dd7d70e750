import { findFeed, type KnownFeed, knownFeeds } from 'sluice'
import type { Feed, Rest } from 'sluice/client'
import { adviseName, isStreamsError, ValidationError } from 'sluice/core'
import { readTextFile } from 'sluice/internal'
import { isFeedID, parseFeedID } from 'sluice/report'
import { type IO, printable } from '../io.js'
import type { Service } from '../service/service.js'
import { fileError } from './files.js'

/** The help text of an argument that takes one feed. */
export const feedText = 'a feed: its id, or a name such as ETH/USD'

/** The help text of an argument that takes several feeds. */
export const feedsText: string = `${feedText}; several, also separated by commas`

/**
 * Finds the feeds that arguments give as ids or names such as ETH/USD. An argument may hold
 * several, separated by commas. A name is looked up in the catalogue that is kept on disk, then
 * among the known feeds if the service is the mainnet or the testnet. For any other name, the
 * service is asked for its list of feeds and for its catalogue.
 */
export async function findFeeds(
  given: readonly string[],
  client: Pick<Rest, 'listFeeds'> & Partial<Pick<Rest, 'discover'>>,
  { network, kept }: Pick<Service, 'network'> & Partial<Pick<Service, 'kept'>>,
  { signal }: Pick<IO, 'signal'>,
): Promise<readonly Feed[]> {
  const texts = given.flatMap(text => text.split(',')).map(text => text.trim())
  let listed: Promise<readonly Feed[]> | undefined
  const list = (): Promise<readonly Feed[]> => {
    listed ??= listNamed(client, signal)
    return listed
  }
  const found = new Map<string, Feed>()
  for (const text of texts) {
    const { discover } = client
    const feed =
      idOf(text) ??
      named(await kept?.find(text, undefined, signal)) ??
      knownOf(text, network) ??
      (await list()).find(({ name }) => isNamed(name, text)) ??
      (discover && named(await kept?.find(text, { discover }, signal)))
    if (feed === undefined)
      throw noFeed(text, 'a feed that is known or that the service lists', [
        ...Object.keys(network === undefined ? {} : knownFeeds[network]),
        ...(await list()).flatMap(({ name }) => name ?? []),
      ])
    found.set(feed.feedID, feed)
  }
  return [...found.values()]
}

/** The most bytes that a file of feeds may have: 14,000 ids. */
const MAX_FILE_BYTES = 1_048_576

/**
 * The ids and names of an option. `@FILE` stands for those of a file: on lines of their own or
 * separated by commas, with comments from `#` to the end of a line.
 */
export async function readFeedList(option: string, given: string): Promise<readonly string[]> {
  if (!given.startsWith('@')) return [given]
  const path = given.slice(1)
  const text = await readTextFile(
    path,
    MAX_FILE_BYTES,
    rule => new ValidationError(`${option}: ${path} ${rule}`),
  ).catch(thrown => {
    throw isStreamsError(thrown) ? thrown : fileError(option, path, thrown)
  })
  const feeds = text
    .split('\n')
    .flatMap(line => line.replace(/#.*/, '').split(','))
    .map(each => each.trim())
    .filter(each => each !== '')
  if (feeds.length === 0) throw new ValidationError(`${option}: ${path} has no feed`)
  return feeds
}

/** Finds the feed of an argument. Throws if the argument holds several feeds. */
export async function findOneFeed(
  given: string,
  ...rest: [Parameters<typeof findFeeds>[1], Parameters<typeof findFeeds>[2], Pick<IO, 'signal'>]
): Promise<Feed> {
  const [feed, other] = await findFeeds([given], ...rest)
  if (feed === undefined || other !== undefined)
    throw new ValidationError('the feed must be a single one: bulk and stream take several')
  return feed
}

/** A feed of the catalogue, with its known facts. */
function named(found: Feed | undefined): Feed | undefined {
  if (found === undefined) return undefined
  const { feedID, name } = found
  return { ...factsOf(feedID), feedID, ...(name === undefined ? {} : { name }) }
}

/** The feed of a text that is an id. */
function idOf(text: string): Feed | undefined {
  // A text that begins with 0x is meant to be an id, so an invalid id is an error.
  return /^0x/i.test(text) || isFeedID(text) ? factsOf(parseFeedID(text, 'the feed')) : undefined
}

function knownOf(text: string, network: Service['network']): Feed | undefined {
  const feed = idOf(text)
  if (feed !== undefined) return feed
  if (network === undefined) return undefined
  return Object.values<KnownFeed>(knownFeeds[network]).find(({ name }) => isNamed(name, text))
}

/**
 * Finds known feeds without a request to the service. A name stands for the feeds of both networks.
 */
export function findKnownFeeds(given: string): readonly Feed[] {
  return given.split(',').flatMap(each => {
    const text = each.trim()
    const feeds = [knownOf(text, 'mainnet'), knownOf(text, 'testnet')].filter(isFound)
    if (feeds.length === 0)
      throw noFeed(
        text,
        'a known feed (sluice feeds lists the ids of others)',
        Object.values(knownFeeds).flatMap(Object.keys),
      )
    return feeds
  })
}

/**
 * The id, of the feed that an option or an argument names, for a report: a name stands for the
 * feeds of both networks, so the report decides.
 */
export function wantedFeedID(wanted: readonly Feed[], signed: string): string {
  const { feedID } = wanted.find(feed => feed.feedID === signed) ?? (wanted[0] as Feed)
  return feedID
}

/**
 * Finds the feeds of a local data engine without a request. A name stands for the feed of the
 * testnet, or else of the mainnet.
 */
export function findLocalFeeds(given: string): readonly string[] {
  return given
    .split(',')
    .map(each => findKnownFeeds(each))
    .map(feeds => (feeds.at(-1) as Feed).feedID)
}

function isFound(feed: Feed | undefined): feed is Feed {
  return feed !== undefined
}

/** Makes the error for a text that is no feed. It proposes the most similar of the names. */
function noFeed(text: string, named: string, names: readonly string[]): ValidationError {
  const shown = text.slice(0, 80)
  const advice = adviseName(shown, names)
  const meant = advice.startsWith('did you mean') ? `; ${printable(advice)}` : ''
  return new ValidationError(
    `${JSON.stringify(shown)} is no feed: it must be 0x and 64 hexadecimal digits, or the name of ${named}${meant}`,
  )
}

/** The known facts about a feed; only its id if the feed is unknown. */
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

/** A name in lower case without punctuation, so that ETH/USD, eth-usd and ethusd are equal. */
function bare(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}
