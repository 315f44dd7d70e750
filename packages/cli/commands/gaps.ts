import type { Command } from 'commander'
import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import type { Chain, Missing } from '../gaps/chain.js'
import type { AddLink, Links } from '../gaps/recorded.js'
import { addExamples } from '../input/arguments.js'
import { factsOf, findFeeds, findKnownFeeds } from '../input/feeds.js'
import { feedTime, feedTimeMs, pastTime, timeText } from '../input/times.js'
import { type IO, print, say } from '../io.js'
import { bold, yellow } from '../output/colours.js'
import { count, dateTime, duration, feedName, timeOfDay } from '../output/feeds.js'
import { requestLogging } from '../output/log.js'
import { createProgress } from '../output/progress.js'
import { addServiceOptions, connect, findService, type ServiceOptions } from '../service/service.js'

interface GapsOptions extends ServiceOptions {
  readonly feed?: string
  readonly from?: number
  readonly to?: number
  readonly strict?: boolean
  readonly json?: boolean
}

/** Adds `gaps`. */
export function addGapsCommand(program: Command, io: IO): void {
  const command = program
    .command('gaps')
    .description(
      'find what is missing between recorded reports, or at the service: each report names the one before it',
    )
    .argument('[files...]', 'recorded files, as record and history write them; without, --feed')
    .option('--feed <feeds>', 'ask the service for these feeds; of files, look at these alone')
    .option('--from <time>', timeText, pastTime)
    .option('--to <time>', 'the same', pastTime)
    .option('--strict', 'count what is only possibly missing as missing')
    .option('--json', 'print JSON, an object a line')
    .addHelpText('after', '\nEnds with 1 where reports are missing.')
  addServiceOptions(command).action((files: string[], options: GapsOptions) =>
    gaps(files, options, io),
  )
  addExamples(
    command,
    'sluice gaps recordings/*.ndjson.gz',
    'sluice gaps --feed ETH/USD --from 1d --to 1h',
    'sluice gaps reports.ndjson --json --strict',
  )
}

async function gaps(files: readonly string[], options: GapsOptions, io: IO): Promise<void> {
  const { feed, from } = options
  if (files.length === 0 && (feed === undefined || from === undefined))
    throw new ValidationError('files, or --feed and --from, must be given')
  const { collectLinks } = await import('../gaps/recorded.js')
  const links: Links = new Map()
  const add = collectLinks(links)
  const feeds =
    files.length === 0
      ? await readService(options, io, add)
      : await readFiles(files, options, io, add)
  if (io.signal.aborted) {
    io.exitCode = 1
    return
  }
  const { checkChain } = await import('../gaps/chain.js')
  const chains = [...links].map(([feedID, list]) => checkChain(feedID, list))
  const missing = chains.flatMap(chain => chain.missing)
  for (const each of missing)
    await print(io, `${options.json ? JSON.stringify(each) : describe(each, feeds)}\n`)
  if (options.json !== true) for (const line of summarize(chains)) say(io, line)
  if (missing.some(({ kind }) => kind === 'missing' || options.strict)) io.exitCode = 1
}

/** Reads what the service has of the feeds, and returns what is known of them. */
async function readService(options: GapsOptions, io: IO, add: AddLink): Promise<readonly Feed[]> {
  const { feed = '', from = 0, to = Date.now() } = options
  const service = findService(options, io)
  await using client = await connect(service, requestLogging(io))
  const feeds = await findFeeds([feed], client, service, io)
  const progress = createProgress(io, true)
  try {
    for (const [at, { feedID }] of feeds.entries()) {
      const range = { from: feedTime(feedID, from), to: feedTime(feedID, to) }
      const { signal } = io
      for await (const report of client.reports(feedID, { ...range, limit: 100, signal })) {
        add(report)
        const share = (feedTimeMs(feedID, report.observationsTimestamp) - from) / (to - from)
        progress.update((at + share) / feeds.length, () => `feed ${at + 1} of ${feeds.length}`)
      }
    }
  } catch (thrown) {
    if (!io.signal.aborted) throw thrown
  } finally {
    progress.end()
  }
  return feeds
}

/** Reads the files, and returns the feeds that are looked at. */
async function readFiles(
  files: readonly string[],
  { feed, from, to }: GapsOptions,
  io: IO,
  add: AddLink,
): Promise<readonly Feed[]> {
  const { readRecorded } = await import('../gaps/recorded.js')
  const feeds = feed === undefined ? [] : findKnownFeeds(feed)
  const wanted = new Set(feeds.map(({ feedID }) => feedID))
  await readRecorded(files, io, report => {
    const ms = feedTimeMs(report.feedID, report.observationsTimestamp)
    if (wanted.size > 0 && !wanted.has(report.feedID)) return
    if (ms >= (from ?? 0) && ms <= (to ?? Number.POSITIVE_INFINITY)) add(report)
  })
  return feeds
}

function describe({ feedID, from, to, kind }: Missing, feeds: readonly Feed[]): string {
  const name = feedName(feeds.find(feed => feed.feedID === feedID) ?? factsOf(feedID))
  const range = `${dateTime(feedID, from)} to ${timeOfDay(feedID, to)}`
  const word = kind === 'missing' ? yellow('missing') : 'possibly missing'
  return `${name.padEnd(15)}  ${range}  ${duration(feedID, to - from + 1)}  ${word}`
}

function summarize(chains: readonly Chain[]): readonly string[] {
  const sum = (of: (chain: Chain) => number): number =>
    chains.reduce((total, chain) => total + of(chain), 0)
  const repeated = sum(chain => chain.repeated)
  const missing = sum(chain => chain.missing.filter(({ kind }) => kind === 'missing').length)
  const possible = sum(chain => chain.missing.length) - missing
  return [
    bold(
      `${count(
        sum(chain => chain.reports),
        'report',
      )} of ${count(chains.length, 'feed')}: ${missing === 0 ? 'no gaps' : count(missing, 'gap')}`,
    ),
    ...(possible === 0
      ? []
      : [
          `${count(possible, 'possible gap')}, in feeds whose reports may not name the ones before them`,
        ]),
    ...(repeated === 0
      ? []
      : [`${count(repeated, 'report')} too many: they stand there more than once`]),
  ]
}
