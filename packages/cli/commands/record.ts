import { mkdir } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import type { Client, Feed } from 'sluice/client'
import type { CursorStore } from 'sluice/stores'
import { exitCodeOf } from '../errors.js'
import { addExamples, number, wholeNumber } from '../input/arguments.js'
import { feedsText } from '../input/feeds.js'
import { fileError } from '../input/files.js'
import { feedTime, pastTime, timeOption, timeText } from '../input/times.js'
import { type IO, stopped, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { startMetrics } from '../output/metrics.js'
import type { Journal } from '../record/journal.js'
import { type CompressionName, compressionNames } from '../record/compression.js'
import type { Recorder } from '../record/recorder.js'
import { connect, findService } from '../service/service.js'
import { noteEvents } from '../stream/events.js'
import { lookUpFeeds } from '../stream/look-up.js'
import {
  addStreamingOptions,
  configure,
  lookUpOptions,
  type StreamingOptions,
  streamOptions,
  verbosityOf,
} from '../stream/options.js'
import { describeTotals } from '../stream/totals.js'

interface RecordOptions extends StreamingOptions {
  readonly dir: string
  readonly from?: number
  readonly backfill: number
  readonly compress: CompressionName
  readonly rotateSize: number
  readonly rotateEvery: number
  readonly flush: number
}

/** Adds `record`. */
export function addRecordCommand(program: Command, io: IO): void {
  const command = program
    .command('record')
    .description('stream feeds into files that rotate; goes on where it ended, however it ended')
    .argument('<feeds...>', feedsText)
    .requiredOption('--dir <dir>', 'the directory of the files, of one recording; made if absent')
    .option('--from <time>', `of a new recording: fetch what came since; ${timeText}`, pastTime)
    .addOption(timeOption('--backfill <time>', 'how far back it fetches after an outage', '1d'))
    .addOption(
      new Option('--compress <how>', 'how files are compressed')
        .choices(compressionNames)
        .default('gzip'),
    )
    .option('--rotate-size <MB>', 'begin another file after so many megabytes', number, 64)
    .addOption(timeOption('--rotate-every <time>', 'and after this time', '1h'))
    .option(
      '--flush <ms>',
      'milliseconds after which reports are on the disk',
      wholeNumber(1, 600_000),
      1000,
    )
  addStreamingOptions(command, 'unlimited').action((given: string[], options: RecordOptions) =>
    record(given, options, io),
  )
  addExamples(
    command,
    'sluice record ETH/USD BTC/USD --mainnet --ha --dir recordings',
    'sluice record ETH/USD --dir recordings --from 1h --signers signers.json',
    'sluice gaps recordings/*.ndjson.gz',
  )
}

async function record(given: readonly string[], options: RecordOptions, io: IO): Promise<void> {
  const { dir, backfill, compress } = options
  const { compressionOf } = await import('../record/compression.js')
  const compression = compressionOf(compress)
  const service = findService(options, io)
  const config = await configure(options, io)
  await using metrics = await startMetrics(options, io)
  const bounded = { ...config, continuity: { ...config.continuity, maxBackfill: backfill } }
  await using client = await connect(service, bounded, metrics.plugins)
  const how = lookUpOptions(options, Number.POSITIVE_INFINITY)
  const feeds = await lookUpFeeds(given, service, config, how, io)
  await mkdir(dir, { recursive: true }).catch((cause: unknown) => {
    throw fileError('--dir', dir, cause, 'written to')
  })
  const { lock } = await import('../record/lock.js')
  const unlock = await lock(dir)
  try {
    const { listRecorded, openFiles, removeTorn } = await import('../record/files.js')
    const { openJournal } = await import('../record/journal.js')
    const journal = await openJournal(dir, (await listRecorded(dir)).length === 0)
    await removeTorn(dir, journal)
    const known = await resume(journal, feeds, options, io)
    const rotation = { maxBytes: options.rotateSize * 1_000_000, maxMs: options.rotateEvery }
    const files = await openFiles(dir, journal, compression, rotation)
    const { createRecorder } = await import('../record/recorder.js')
    const recorder = createRecorder(files, known, options.flush)
    await runRecording(client, feeds, recorder, journal, options, io)
    await files.close()
  } finally {
    unlock()
  }
}

/** Finds where the recording goes on, writes it into the journal, and returns what is in the files behind that. */
async function resume(
  journal: Journal,
  feeds: readonly Feed[],
  { dir, from }: RecordOptions,
  io: IO,
): Promise<Set<string>> {
  const { readKnown } = await import('../record/known.js')
  const { keys, cursors } = await readKnown(dir, journal.position.cursors, io)
  const starts = feeds.flatMap(({ feedID }) =>
    from === undefined ? [] : [[feedID, feedTime(feedID, from) - 1] as const],
  )
  await journal.write({ cursors: { ...Object.fromEntries(starts), ...cursors } })
  return keys
}

async function runRecording(
  client: Client,
  feeds: readonly Feed[],
  recorder: Recorder,
  journal: Journal,
  options: RecordOptions,
  io: IO,
): Promise<void> {
  const cursors: CursorStore = {
    load: async () => journal.position.cursors,
    save: saved => journal.write({ cursors: { ...journal.position.cursors, ...saved } }),
  }
  const { signal: _, ...others } = streamOptions(options, io)
  const stream = client.createStream(
    feeds.map(({ feedID }) => feedID),
    {
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
      ...others,
      cursors,
      acknowledge: 'manual',
      queue: 65_536,
    },
  )
  const verbosity = verbosityOf(options)
  const wasNoted = noteEvents(stream, feeds, verbosity, line => warn(io, line))
  stream.on('report', recorder.add)
  try {
    if (verbosity !== 'quiet')
      warn(io, `recording ${count(feeds.length, 'feed')} into ${options.dir}`)
    await Promise.race([stream.connect().then(() => stream.closed), recorder.failed, stopped(io)])
  } catch (thrown) {
    if (!wasNoted(thrown)) throw thrown
    io.exitCode = exitCodeOf(thrown)
  } finally {
    await recorder.close()
    await stream.close()
    await recorder.close()
  }
  if (verbosity === 'quiet') return
  for (const line of describeTotals(stream, io.exitCode !== 0)) warn(io, line)
  warn(io, `${count(recorder.written, 'report')} written`)
}
