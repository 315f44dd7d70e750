import { type CatalogueFeed, type CatalogueFilters, isNotFound, type Rest } from 'sluice/client'
import { adviseName, ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, given, type Values } from '../command.js'
import { type IO, print, printable, say, warn } from '../io.js'
import { count, describeFeed, escapeControls } from '../output/feeds.js'
import { requestLogging } from '../output/log.js'
import { Deadline, timeoutOptions } from '../service/deadline.js'
import { connect, findService, serviceOptions } from '../service/service.js'

const DAY = 86_400_000

const filterOptions = {
  asset: { is: 'list', value: 'asset', help: 'the priced asset, such as BTC; several with commas' },
  quote: { is: 'list', value: 'asset', help: 'the asset of the price, such as USD' },
  class: { is: 'list', value: 'class', help: 'the class of the asset, such as Crypto' },
  type: { is: 'list', value: 'type', help: 'the type of the feed, such as Crypto-DEX' },
  attribute: { is: 'list', value: 'type', help: 'what the feed says, such as CexPrice' },
  status: { is: 'list', value: 'status', help: 'live or testing (default: both)' },
  hidden: { help: 'also list the hidden feeds that the credentials may read' },
  retiring: { help: 'list feeds that the service is going to retire' },
  createdAfter: { is: 'day', help: 'created after this day, as 2027-01-31' },
  createdBefore: { is: 'day', help: 'created before this day' },
  retiresAfter: { is: 'day', help: 'going to retire after this day', excludes: ['retiring'] },
  retiresBefore: { is: 'day', help: 'going to retire before this day' },
  decommissionedAfter: { is: 'day', help: 'retired after this day' },
  decommissionedBefore: { is: 'day', help: 'retired before this day' },
} as const

const outputOptions = {
  output: {
    is: 'outputFormat',
    short: 'o',
    help: 'json, csv, table, lines, or template=TEXT with fields: template="{{name}} {{feedID}}"',
    excludes: ['json'],
  },
  json: { help: 'short for -o json: an object a line' },
} as const

/** Adds `feeds`. */
export const addFeedsCommand: AddCommand = defineCommand({
  name: 'feeds',
  options: {
    ...filterOptions,
    refresh: { help: 'ask the service even if an answer is kept that is not five minutes old' },
    ...outputOptions,
    ...timeoutOptions,
    ...serviceOptions,
  },
  after:
    'Without a catalogue, the service lists the feeds that the credentials may read, and no filter can be given. Answers are kept for five minutes.',
  examples: [
    'sluice feeds --mainnet --asset BTC --quote USD --status live',
    'sluice feeds --retiring',
    'sluice feeds --class Crypto --json --env-file .env',
  ],
  async run(options, io) {
    const { signal } = new Deadline(options.timeout, 'the service has not answered', io.signal)
    const service = findService(options, io)
    const filters = filtersOf(options)
    const write = createWriter(options, io)
    await using client = connect(service, requestLogging(io))
    let feeds: readonly CatalogueFeed[]
    try {
      const isFresh = options.refresh === true
      const found = await service.kept.discover(client, { ...filters, signal }, isFresh)
      feeds = found.feeds
      const { isKept, isStale, fetchedAt } = found
      if (isStale)
        warn(io, `the service does not answer: this is its answer of ${ago(fetchedAt)} ago`)
      else if (isKept)
        warn(
          io,
          `this is the service's answer of ${ago(fetchedAt)} ago, which is kept for five minutes, so it was not asked: --refresh asks`,
        )
    } catch (thrown) {
      if (!isNotFound(thrown)) throw thrown
      feeds = await listInstead(client, filters, signal, io)
    }
    await write(feeds)
    if (feeds.length === 0) warn(io, 'no feed of the catalogue fits')
  },
})

function filtersOf(options: Values<typeof filterOptions>): CatalogueFilters {
  const texts = (list: readonly string[] | undefined): readonly string[] | undefined => {
    const split = list?.flatMap(each => each.split(',')).map(each => each.trim())
    return split?.length ? split : undefined
  }
  // The day itself does not belong to the filter, and feeds may retire today.
  const yesterday = new Date(Date.now() - DAY).toISOString().slice(0, 10)
  return given({
    baseAsset: texts(options.asset),
    quoteAsset: texts(options.quote),
    assetClass: texts(options.class),
    feedType: texts(options.type),
    attributeType: texts(options.attribute),
    status: texts(options.status),
    hidden: options.hidden,
    createdAfter: options.createdAfter,
    createdBefore: options.createdBefore,
    expectedDecommissionAfter: options.retiring ? yesterday : options.retiresAfter,
    expectedDecommissionBefore: options.retiresBefore,
    decommissionedAfter: options.decommissionedAfter,
    decommissionedBefore: options.decommissionedBefore,
  })
}

/** Lists the readable feeds of a service without a catalogue. It can't filter them. */
async function listInstead(
  client: Pick<Rest, 'listFeeds'>,
  filters: CatalogueFilters,
  signal: AbortSignal,
  io: IO,
): Promise<readonly CatalogueFeed[]> {
  if (Object.keys(filters).length > 0)
    throw new ValidationError('the service has no catalogue, so it takes no filter of feeds')
  warn(io, 'the service has no catalogue: these are the feeds that the credentials may read')
  return client.listFeeds({ signal })
}

function ago(time: number): string {
  const seconds = Math.round((Date.now() - time) / 1000)
  if (seconds < 120) return count(seconds, 'second')
  const minutes = Math.round((Date.now() - time) / 60_000)
  if (minutes < 120) return count(minutes, 'minute')
  const hours = Math.round(minutes / 60)
  return hours < 48 ? count(hours, 'hour') : count(Math.round(hours / 24), 'day')
}

type Row = Readonly<Record<string, string>>
const columns = ['name', 'feedID', 'class', 'hours', 'version', 'retires'] as const

function rowOf(feed: CatalogueFeed): Row {
  const { feedID, name, assetClass, marketHours, schemaVersion, expectedDecommissionAt } = feed
  return {
    name: printable(name ?? ''),
    feedID,
    class: printable(assetClass ?? ''),
    hours: printable(marketHours ?? ''),
    version: printable(schemaVersion ?? ''),
    retires: expectedDecommissionAt?.toISOString().slice(0, 10) ?? '',
  }
}

/** Every field of a feed as a text, for a template or CSV. */
const fieldNames = [
  ...['feedID', 'name', 'assetName', 'baseAsset', 'quoteAsset', 'assetClass', 'feedType'],
  ...['attributeType', 'marketHours', 'serviceLevel', 'schemaVersion', 'networkType', 'status'],
  ...['createdAt', 'expectedDecommissionAt', 'decommissionedAt'],
] as const

function textOf(feed: CatalogueFeed, field: string): string {
  const value = feed[field as keyof CatalogueFeed]
  return value instanceof Date ? value.toISOString() : printable(value ?? '')
}

const PLACE = /\{\{\s*(\w+)\s*\}\}/g

/** Makes the function that prints feeds in the format of the options. */
function createWriter(
  { output, json }: Values<typeof outputOptions>,
  io: IO,
): (feeds: readonly CatalogueFeed[]) => Promise<void> {
  const chosen = output ?? { name: json ? 'json' : io.stdout.isTTY ? 'table' : 'lines' }
  const text = chosen.name === 'template' && 'text' in chosen ? chosen.text : ''
  if (chosen.name === 'template') checkTemplate(text)
  const lineOf = (feed: CatalogueFeed): string => {
    if (chosen.name === 'json') return escapeControls(JSON.stringify(feed))
    if (chosen.name === 'csv') return fieldNames.map(name => quoted(textOf(feed, name))).join(',')
    if (chosen.name === 'template')
      return text.replace(PLACE, (_, name: string) => textOf(feed, name))
    return io.stdout.isTTY ? describeFeed(feed) : feed.feedID
  }
  return async feeds => {
    if (chosen.name === 'table') return writeTable(feeds, io)
    if (chosen.name === 'csv') say(io, fieldNames.join(','))
    for (const feed of feeds) await print(io, `${lineOf(feed)}\n`)
  }
}

function checkTemplate(text: string): void {
  const places = [...text.matchAll(PLACE)]
  if (places.length === 0)
    throw new ValidationError('the template must have a field, such as {{name}}')
  for (const [place, name = ''] of places)
    if (!(fieldNames as readonly string[]).includes(name))
      throw new ValidationError(
        `the template has an unknown field ${place}; ${adviseName(name, fieldNames)}`,
      )
}

function quoted(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

async function writeTable(feeds: readonly CatalogueFeed[], io: IO): Promise<void> {
  if (feeds.length === 0) return
  const head: Row = Object.fromEntries(columns.map(name => [name, name]))
  const rows = [head, ...feeds.map(rowOf)]
  const shown = columns.filter(name => feeds.some(feed => rowOf(feed)[name] !== ''))
  const widths = shown.map(name => Math.max(...rows.map(row => row[name]?.length ?? 0)))
  for (const row of rows) {
    const cells = shown.map((name, at) => (row[name] ?? '').padEnd(widths[at] ?? 0))
    await print(io, `${cells.join('  ').trimEnd()}\n`)
  }
}
