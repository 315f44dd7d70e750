import { setTimeout as wait } from 'node:timers/promises'
import type { DataEngine, RecordedReport } from '@sluice/engine'
import { type Command, InvalidArgumentError } from 'commander'
import { addExamples } from '../input/arguments.js'
import { feedTimeMs } from '../input/times.js'
import { type IO, stopped, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { createProgress } from '../output/progress.js'
import { addEngineOptions, describeEngine, type EngineOptions } from '../service/engine.js'

interface ReplayOptions extends EngineOptions {
  readonly speed: number
  readonly wait?: boolean
  readonly exit?: boolean
}

/** Milliseconds after the last report in which clients may read it, before the engine ends. */
const DRAIN = 500
/** Milliseconds between two looks at who is connected. */
const LOOK = 50

/** Adds `replay`. */
export function addReplayCommand(program: Command, io: IO): void {
  const command = addEngineOptions(program.command('replay'))
    .description('publish recorded reports through a local data engine, unchanged, at any speed')
    .argument('<files...>', 'recorded files, as record and history write them')
    .option('--speed <n>', 'how many times as fast as they came, or max', speed, 1)
    .option('--wait', 'begin with the first connection')
    .option('--exit', 'end after the last report')
    .action((files: string[], options: ReplayOptions) => replay(files, options, io))
  addExamples(
    command,
    'sluice replay recordings/*.ndjson.gz --speed 10',
    'sluice replay reports.ndjson --speed max --wait --exit --port 8080',
  )
}

/** Reads a speed. */
function speed(text: string): number {
  if (text === 'max') return Number.POSITIVE_INFINITY
  const value = Number(text.replace(/x$/, ''))
  if (value > 0) return value
  throw new InvalidArgumentError('must be a number above 0, or max')
}

async function replay(files: readonly string[], options: ReplayOptions, io: IO): Promise<void> {
  const { speed: factor, wait: waits, exit, ...others } = options
  const { signal } = io
  const { readRecorded } = await import('../gaps/recorded.js')
  const reports: Required<RecordedReport>[] = []
  await readRecorded(files, io, report => reports.push(report))
  const { startDataEngine } = await import('@sluice/engine')
  await using engine = await startDataEngine({ ...others, replay: reports, intervalMs: 0 })
  describeEngine(engine, io)
  try {
    if (waits) while (engine.connections === 0) await wait(LOOK, undefined, { signal })
    await publishAll(engine, reports, factor, io)
    warn(io, `${count(reports.length, 'report')} published`)
    if (exit) await wait(DRAIN, undefined, { signal })
    else await stopped(io)
  } catch (thrown) {
    if (!io.signal.aborted) throw thrown
  }
}

/** Publishes the reports at the distances at which they were observed; those of a time before others at once. */
async function publishAll(
  engine: DataEngine,
  reports: readonly Required<RecordedReport>[],
  factor: number,
  io: IO,
): Promise<void> {
  const progress = createProgress(io, true)
  const timeOf = ({ feedID, observationsTimestamp }: Required<RecordedReport>): number =>
    feedTimeMs(feedID, observationsTimestamp)
  const first = reports[0]
  const { signal } = io
  const begin = performance.now()
  try {
    for (const [at, report] of reports.entries()) {
      const due = begin + (timeOf(report) - timeOf(first ?? report)) / factor
      const ahead = due - performance.now()
      if (ahead > 1) await wait(ahead, undefined, { signal })
      // The engine's sockets get their time, too.
      else if (at % BATCH === 0) await wait(0, undefined, { signal })
      engine.replayNext()
      progress.update(at / reports.length, () => `${at} of ${reports.length} reports`)
    }
  } finally {
    progress.end()
  }
}

/** Reports that are published at once. */
const BATCH = 100
