import { access, readFile, writeFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { DataEngine, OriginScript, Replay, ReplayOptions } from '@sluice/engine'
import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, given } from '../command.js'
import { type CompleteReport, readRecorded, recordedReports } from '../gaps.js'
import { findLocalFeeds } from '../input/feeds.js'
import { fileError, parseJSON, readFile as readWholeFile } from '../input/files.js'
import { type IO, print, stopped, tell, warn } from '../io.js'
import { bold } from '../output/colours.js'
import { count, utc } from '../output/feeds.js'
import { Keyboard } from '../output/keyboard.js'
import { createProgress } from '../output/progress.js'
import { feedTimeMs, timeText } from '../values.js'

/** The options of the commands that run a local data engine. */
const engineOptions = {
  port: { is: 'port', help: 'the port', default: 8080 },
  host: { is: 'address', help: 'the address to listen on', default: '127.0.0.1' },
  origins: { is: 'whole', help: 'how many origins to run', min: 1, max: 999, default: 1 },
  apiKey: { is: 'key', help: 'the API key of its user' },
  userSecret: { value: 'secret', help: 'the secret of its user' },
} as const

/**
 * Adds `serve`. The command prints the settings for a client, and runs a local data engine until
 * the user ends it.
 */
export const addServeCommand: AddCommand = defineCommand({
  name: 'serve',
  runsUntilStopped: true,
  options: {
    ...engineOptions,
    interval: {
      is: 'number',
      value: 'ms',
      help: 'milliseconds between two reports of a feed',
      default: 1000,
    },
    seed: { is: 'number', help: 'the seed of keys and values', default: 1 },
    feeds: { value: 'feeds', help: 'ids or names of feeds, separated by commas' },
    signersOut: {
      is: 'file',
      help: 'write the signers into a JSON file, as verify and stream take them',
    },
    envOut: {
      is: 'file',
      help: 'write the URLs and the keys into a file, as --env-file of the other commands takes it',
    },
    replay: { is: 'file', help: 'publish the recorded reports of an NDJSON file instead' },
  },
  examples: [
    'sluice serve --port 8080 --interval 250',
    'sluice serve --origins 2 --signers-out signers.json',
  ],
  async run({ interval, feeds, signersOut, envOut, replay, ...others }, io) {
    if (replay !== undefined)
      await access(replay).catch((cause: unknown) => {
        throw fileError('--replay', replay, cause)
      })
    const { startDataEngine } = await import('@sluice/engine')
    await using engine = await startDataEngine({
      ...others,
      ...given({ replay, feeds: feeds === undefined ? undefined : findLocalFeeds(feeds) }),
      intervalMs: interval,
      retain: 3600,
      keepAlive: true,
    })
    if (replay !== undefined && engine.feeds.length === 0)
      throw new ValidationError(`--replay: ${replay}: no report in there, so nothing to publish`)
    if (signersOut !== undefined)
      await writeFile(signersOut, `${JSON.stringify(engine.network)}\n`).catch((cause: unknown) => {
        throw fileError('--signers-out', signersOut, cause, 'written to')
      })
    await describeEngine(engine, io, envOut)
    // The signers of recorded reports are not the signers of this engine.
    if (replay === undefined) {
      const { f, signers } = engine.network
      tell(io, `every report is signed by ${f + 1} of ${signers.length} signers; f is ${f}:`)
      for (const signer of signers) tell(io, `  ${signer}`)
    }
    await stopped(io)
  },
})

/**
 * Milliseconds between the last report and the end of the engine, so that clients can read the
 * report.
 */
const DRAIN = 500
/** How often `--wait` checks the number of connections, in milliseconds. */
const LOOK = 50
/**
 * If reports are due together, the command pauses after this many, so that the engine's sockets can
 * send.
 */
const BATCH = 100

/** Adds `replay`. */
export const addReplayCommand: AddCommand = defineCommand({
  name: 'replay',
  runsUntilStopped: ({ exit }) => exit !== true,
  arguments: { '<files...>': 'recorded files, as record and history write them' },
  options: {
    ...engineOptions,
    speed: { is: 'speed', help: 'how many times as fast as they came, or max', default: 1 },
    wait: { help: 'begin with the first connection' },
    exit: { help: 'end after the last report' },
    asService: {
      help: 'be the service of that day: its clock, its history over REST, and what its stream had missed',
      excludes: ['wait'],
    },
    from: { is: 'past', help: `begin at this time; ${timeText}`, needs: ['asService'] },
    paused: { help: 'begin with a clock that stands still', needs: ['asService'] },
    script: {
      is: 'file',
      help: 'JSON with the lag, the losses and the faults of each origin',
      needs: ['asService'],
    },
    envOut: {
      is: 'file',
      help: 'write the URLs and the keys into a file, as --env-file of the other commands takes it',
    },
  },
  after:
    'With --as-service on a terminal: space stops the clock and lets it go on, . steps to the next report, + and - change the speed.',
  examples: [
    'sluice replay recordings/*.ndjson.gz --speed 10',
    'sluice replay recordings/*.ndjson.gz --as-service --from 2027-01-31T12:00Z --speed 60',
    'sluice replay reports.ndjson --speed max --wait --exit --port 8080',
  ],
  async run({ speed, wait: waits, exit, asService, envOut, ...given }, io, { files }) {
    const { signal } = io
    const { from, paused, script, ...others } = given
    if (asService) {
      await serveDay(files, { ...others, speed, from, paused, script, exit, envOut }, io)
      return
    }
    const reports: CompleteReport[] = []
    await readRecorded(files, io, report => reports.push(report))
    if (signal.aborted) return
    if (reports.length === 0) throw nothingIn(files)
    // A recorder writes what it has fetched behind what came in the meantime.
    reports.sort((one, other) => timeOf(one) - timeOf(other))
    const { startDataEngine } = await import('@sluice/engine')
    await using engine = await startDataEngine({
      ...others,
      replay: reports,
      intervalMs: 0,
      keepAlive: true,
    })
    await describeEngine(engine, io, envOut)
    try {
      if (waits) while (engine.connections === 0) await wait(LOOK, undefined, { signal })
      await publishAll(engine, reports, speed, io)
      warn(io, `${count(reports.length, 'report')} published`)
      if (exit) await wait(DRAIN, undefined, { signal })
      else await stopped(io)
    } catch (thrown) {
      if (!signal.aborted) throw thrown
    }
  },
})

interface DayOptions {
  readonly port: number
  readonly host: string
  readonly apiKey?: string
  readonly userSecret?: string
  readonly speed: number
  readonly origins: number
  readonly from: number | undefined
  readonly paused: boolean | undefined
  readonly script: string | undefined
  readonly exit: boolean | undefined
  readonly envOut: string | undefined
}

/** The speed of `max`: an hour in less than a second. */
const MAX_SPEED = 10_000

function nothingIn(files: readonly string[]): ValidationError {
  return new ValidationError(`${files.join(', ')}: no report in there, so nothing to publish`)
}

/** Serves recorded files as the service of their day. */
async function serveDay(
  files: readonly string[],
  { speed, origins, from, paused = false, script, exit, envOut, ...others }: DayOptions,
  io: IO,
): Promise<void> {
  const { startReplay } = await import('@sluice/engine')
  const scripts = script === undefined ? undefined : readScript(script)
  async function* read(): AsyncGenerator<CompleteReport> {
    let isEmpty = true
    for await (const report of recordedReports(files, io)) {
      isEmpty = false
      yield report
    }
    if (isEmpty) throw nothingIn(files)
  }
  const options: ReplayOptions = {
    ...others,
    ...{ speed: Math.min(speed, MAX_SPEED), paused, keepAlive: true },
    ...given({ from }),
    origins: scripts ?? Array.from({ length: origins }, () => ({})),
  }
  await using replay = await startReplay(read(), options).catch((thrown: unknown) => {
    // The user has stopped the command while it read the files.
    if (!io.signal.aborted) throw thrown
    return undefined
  })
  if (replay === undefined || io.signal.aborted) return
  await describeEngine(replay, io, envOut)
  const total = replay.left
  tell(io, `the clock begins at ${utc(replay.now())}, ${count(total, 'report')} to come`)
  if (replay.unstreamed > 0)
    warn(
      io,
      `${count(replay.unstreamed, 'report')} not streamed, which the recorded stream had missed: REST has ${replay.unstreamed === 1 ? 'it' : 'them'}`,
    )
  const keyboard = Keyboard.open(io.stdin, {
    press: key => press(replay, key, io),
    suspend: () => undefined,
    resume: () => undefined,
  })
  try {
    await Promise.race([replay.ended, stopped(io)])
    if (io.signal.aborted) return
    warn(io, `${count(total, 'report')} published`)
    if (exit) await wait(DRAIN, undefined, { signal: io.signal })
    else await stopped(io)
  } catch (thrown) {
    if (!io.signal.aborted) throw thrown
  } finally {
    keyboard?.close()
  }
}

/** Handles a key of a terminal. */
function press(replay: Replay, key: string, io: IO): void {
  if (key === ' ') replay[replay.isPaused ? 'resume' : 'pause']()
  else if (key === '+' || key === '-') replay.speed *= key === '+' ? 2 : 0.5
  else if (key === '.' && replay.isPaused) {
    void replay.step().then(() => tellClock(replay, io))
    return
  } else return
  tellClock(replay, io)
}

function tellClock(replay: Replay, io: IO): void {
  const state = replay.isPaused ? 'stands still' : `runs ${replay.speed} times as fast`
  tell(io, `${utc(Math.floor(replay.now()))}: the clock ${state}, ${replay.left} to come`)
}

/** Reads the script of the origins. `startReplay` checks it. */
function readScript(path: string): readonly OriginScript[] {
  const value = parseJSON(`--script ${path}`, readWholeFile('--script', path).toString())
  if (Array.isArray(value)) return value
  throw new ValidationError(`--script: ${path} must be a list with a script for each origin`)
}

const timeOf = ({ feedID, observationsTimestamp: time }: CompleteReport): number =>
  feedTimeMs(feedID, time)

/** Publishes the reports, which ascend by time, at their intervals divided by `speed`. */
async function publishAll(
  engine: DataEngine,
  reports: readonly CompleteReport[],
  speed: number,
  io: IO,
): Promise<void> {
  const progress = createProgress(io, true)
  const times = reports.map(timeOf)
  const [first = 0] = times
  const { signal } = io
  const begin = performance.now()
  try {
    for (const [at, time] of times.entries()) {
      const ahead = begin + (time - first) / speed - performance.now()
      if (ahead > 1) await wait(ahead, undefined, { signal })
      else if (at % BATCH === 0) await wait(0, undefined, { signal })
      engine.replayNext()
      progress.update(at / times.length, () => `${at} of ${times.length} reports`)
    }
  } finally {
    progress.end()
  }
}

type Served = Pick<
  DataEngine,
  'endpoint' | 'wsEndpoint' | 'apiKey' | 'userSecret' | 'origins' | 'feeds'
>

/**
 * Prints the settings with which a client reaches the engine, or writes them into a file. Standard
 * output has the settings alone, so that it may become such a file.
 */
async function describeEngine(engine: Served, io: IO, envOut?: string): Promise<void> {
  const { endpoint, wsEndpoint, apiKey, userSecret, origins, feeds } = engine
  const settings = `REST_URL=${endpoint}\nWS_URL=${wsEndpoint}\nAPI_KEY=${apiKey}\nUSER_SECRET=${userSecret}\n`
  const lines = [
    bold('A local data engine is running; Ctrl-C ends it'),
    envOut === undefined
      ? 'These four go into the environment of a client, or into a file for its --env-file:'
      : `--env-file ${envOut} tells a client where it is`,
    ...(origins.length > 1 ? origins.map(each => `origin ${each.id} at ${each.wsEndpoint}`) : []),
    `${count(feeds.length, 'feed')}:`,
    ...feeds.map(feedID => `  ${feedID}`),
  ]
  if (envOut === undefined) await print(io, settings)
  else {
    await checkIsOurs(envOut, apiKey)
    await writeFile(envOut, settings, { mode: 0o600 }).catch((cause: unknown) => {
      throw fileError('--env-out', envOut, cause, 'written to')
    })
  }
  for (const line of lines) tell(io, line)
}

/** Throws if a file has anything but the settings of a local engine, such as a user's own keys. */
async function checkIsOurs(path: string, apiKey: string): Promise<void> {
  const text = await readFile(path, 'utf8').catch(() => '')
  if (text !== '' && !text.includes(`API_KEY=${apiKey}\n`))
    throw new ValidationError(`--env-out: ${path} has other contents: name another file`)
}
