import type { Feed } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { type MissingReports, type ReportChain, ReportLinks } from 'sluice/internal'
import { type AddCommand, defineCommand } from '../command.js'
import { readRecorded } from '../gaps.js'
import { factsOf, findFeeds, findKnownFeeds } from '../input/feeds.js'
import { type IO, print, say } from '../io.js'
import { bold, yellow } from '../output/colours.js'
import { count, dateRange, duration, feedName, observedAt } from '../output/feeds.js'
import { requestLogging } from '../output/log.js'
import { createProgress } from '../output/progress.js'
import { connect, findService, type ServiceOptions, serviceOptions } from '../service/service.js'
import { checkPast, givenTime, timeText } from '../values.js'

/** Adds `gaps`. */
export const addGapsCommand: AddCommand = defineCommand({
  name: 'gaps',
  arguments: { '[files...]': 'recorded files, as record and history write them; without, --feed' },
  options: {
    feed: { value: 'feeds', help: 'ask the service for these feeds; of files, look only at these' },
    from: { is: 'past', help: timeText },
    to: { is: 'past', help: 'the same' },
    strict: { help: 'count possible gaps as gaps' },
    json: { help: 'print JSON, an object a line' },
    ...serviceOptions,
  },
  after: 'Ends with 1 where reports are missing.',
  examples: [
    'sluice gaps recordings/*.ndjson.gz',
    'sluice gaps --feed ETH/USD --from 1d --to 1h',
    'sluice gaps reports.ndjson --json --strict',
  ],
  async run(options, io, { files }) {
    const { feed, from = 0, to = Number.POSITIVE_INFINITY } = options
    if (files.length === 0 && (feed === undefined || options.from === undefined))
      throw new ValidationError('files, or --feed and --from, must be given')
    checkPast('--from', options.from)
    if (to < from) throw new ValidationError('--to must not be before --from')
    const links = new ReportLinks()
    let feeds: readonly Feed[]
    if (files.length === 0) feeds = await readService(options, io, links)
    else {
      feeds = feed === undefined ? [] : findKnownFeeds(feed)
      const wanted = new Set(feeds.map(({ feedID }) => feedID))
      await readRecorded(files, io, report => {
        if (wanted.size > 0 && !wanted.has(report.feedID)) return
        const ms = observedAt(report)
        if (ms >= from && ms <= to) links.add(report)
      })
    }
    if (io.signal.aborted) return
    const chains = links.check()
    // "No gaps" of nothing would be a false comfort.
    if (files.length > 0 && chains.length === 0)
      throw new ValidationError(`${files.join(', ')}: no report${whichOf(options)} in there`)
    const missing = chains.flatMap(chain => chain.missing)
    for (const each of missing)
      await print(io, `${options.json ? JSON.stringify(each) : describe(each, feeds)}\n`)
    if (!options.json) for (const line of summarize(chains)) say(io, line)
    if (missing.some(({ kind }) => kind === 'missing' || options.strict)) io.exitCode = 1
  },
})

/** Fetches the feeds' reports from the service, and returns the feeds. */
async function readService(
  options: ServiceOptions & {
    readonly feed?: string
    readonly from?: number
    readonly to?: number
  },
  io: IO,
  links: ReportLinks,
): Promise<readonly Feed[]> {
  const { feed = '', from = 0, to = Date.now() } = options
  const service = findService(options, io)
  await using client = connect(service, requestLogging(io))
  const feeds = await findFeeds([feed], client, service, io)
  const progress = createProgress(io, true)
  try {
    for (const [at, { feedID }] of feeds.entries()) {
      const end = givenTime('--to', feedID, options.to, to)
      const range = { from: givenTime('--from', feedID, from), to: end }
      const { signal } = io
      for await (const report of client.reports(feedID, { ...range, limit: 100, signal })) {
        links.add(report)
        const share = (observedAt(report) - from) / (to - from)
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

/** The options that choose reports of files. */
interface ChosenReports {
  readonly feed?: string | undefined
  readonly from?: number | undefined
  readonly to?: number | undefined
}

/** The reports that the options choose, in words. */
function whichOf({ feed, from, to }: ChosenReports): string {
  const of = feed === undefined ? '' : ` of ${feed}`
  return from === undefined && to === undefined ? of : `${of} in that time`
}

function describe({ feedID, from, to, kind }: MissingReports, feeds: readonly Feed[]): string {
  const name = feedName(feeds.find(feed => feed.feedID === feedID) ?? factsOf(feedID))
  const range = dateRange(feedID, from, to)
  const word = kind === 'missing' ? yellow('missing') : 'possibly missing'
  return `${name.padEnd(15)}  ${range}  ${duration(feedID, to - from + 1)}  ${word}`
}

function summarize(chains: readonly ReportChain[]): readonly string[] {
  let [reports, repeated, missing, possible, later] = [0, 0, 0, 0, 0]
  for (const chain of chains) {
    const sure = chain.missing.filter(({ kind }) => kind === 'missing').length
    reports += chain.reports
    repeated += chain.repeated
    later += chain.signedLater
    missing += sure
    possible += chain.missing.length - sure
  }
  const gaps = missing === 0 ? 'no gaps' : count(missing, 'gap')
  const lines = [bold(`${count(reports, 'report')} of ${count(chains.length, 'feed')}: ${gaps}`)]
  if (possible > 0)
    lines.push(
      `${count(possible, 'possible gap')}, which --strict counts: the reports of these feeds may not name the ones before them`,
    )
  if (later > 0)
    lines.push(`${count(later, 'report')} signed later than their time, by their sequence numbers`)
  if (repeated > 0)
    lines.push(`${count(repeated, 'report')} too many: they stand there more than once`)
  return lines
}
