import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand } from '../command.js'
import { feedText, findOneFeed } from '../input/feeds.js'
import { print, warn } from '../io.js'
import { count, dateTime } from '../output/feeds.js'
import { createFormat, formatNameOf, formatOptions } from '../output/format.js'
import { requestLogging } from '../output/log.js'
import { ParquetFile } from '../output/parquet-file.js'
import { createProgress } from '../output/progress.js'
import { TextFile } from '../output/text-file.js'
import { connect, findService, serviceOptions } from '../service/service.js'
import { checkPast, givenTime, timeText } from '../values.js'

/** Adds `history`. */
export const addHistoryCommand: AddCommand = defineCommand({
  name: 'history',
  arguments: { '<feed>': feedText },
  options: {
    from: { is: 'past', help: timeText, required: true },
    to: { is: 'past', help: 'the same (default: now)' },
    out: { is: 'file', help: 'write them into a file, with a progress bar on a terminal' },
    resume: { help: 'continue the file after its last report', needs: ['out'] },
    parquet: {
      help: 'write a Parquet file; needs the package hyparquet-writer',
      needs: ['out'],
      excludes: ['output', 'json', 'csv', 'resume'],
    },
    limit: {
      is: 'whole',
      help: 'how many reports a request asks for',
      min: 1,
      max: 1_000_000,
      default: 100,
    },
    rate: {
      is: 'whole',
      help: 'how many requests go out in a second',
      min: 1,
      max: 1_000_000,
      default: 10,
    },
    ...formatOptions,
    ...serviceOptions,
  },
  examples: [
    'sluice history ETH/USD --from 1h --json | sluice decode - --csv',
    'sluice history ETH/USD --from 2027-01-01 --to 2027-01-02 --csv --out eth.csv',
    'sluice history ETH/USD --from 2027-01-01 --to 2027-01-02 --csv --out eth.csv --resume',
  ],
  async run(options, io, args) {
    const { to = Date.now(), limit, rate, out, resume = false, parquet } = options
    checkPast('--from', options.from)
    if (to < options.from) throw new ValidationError('--to must not be before --from')
    const isForFiles = ['json', 'csv'].includes(formatNameOf(options)?.name ?? '')
    if (out !== undefined && !parquet && !isForFiles)
      throw new ValidationError('--out needs --json, --csv or --parquet')
    const service = findService(options, io)
    const config = { ...requestLogging(io), rateLimit: { requests: rate } }
    await using client = connect(service, config)
    const feed = await findOneFeed(args.feed, client, service, io)
    const { feedID } = feed
    const format = createFormat(options, [feed])
    let file: ParquetFile | TextFile | undefined
    if (out === undefined) await print(io, format.head)
    else if (parquet) file = await ParquetFile.open(out, feed, options)
    else file = await TextFile.open(out, format, feedID, resume)
    const from = Math.max(givenTime('--from', feedID, options.from), (file?.last ?? 0) + 1)
    const end = givenTime('--to', feedID, options.to, to)
    const { signal } = io
    const progress = createProgress(io, file !== undefined)
    let written = 0
    let hasFailed = true
    try {
      for await (const report of from > end
        ? []
        : client.reports(feedID, { from, to: end, limit, signal })) {
        if (file === undefined) await print(io, `${format.line(report)}\n`)
        else await file.write(report)
        written++
        const time = report.observationsTimestamp
        progress.update(
          (time - from) / Math.max(1, end - from),
          () => `${written} reports, ${dateTime(feedID, time)}`,
        )
      }
      hasFailed = signal.aborted
    } catch (thrown) {
      if (!signal.aborted) throw thrown
    } finally {
      progress.end()
      await (hasFailed && written === 0 ? file?.discard() : file?.close())
    }
    const hint = signal.aborted && !parquet ? '; --resume continues it' : ''
    if (out !== undefined) warn(io, `${count(written, 'report')} written to ${out}${hint}`)
  },
})
