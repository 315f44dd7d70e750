import type { Config } from 'sluice'
import type { Feed, Stream } from 'sluice/client'
import { type ErrorCode, isStreamsError } from 'sluice/core'
import { given, inGroup, type Values } from '../command.js'
import { adviceOn, exitCodeOf } from '../errors.js'
import { type IO, warn } from '../io.js'
import { inOneLine } from '../one-line.js'
import { count } from '../output/feeds.js'
import { createLogger } from '../output/log.js'
import { findSigners, type SignerOptions } from '../service/signers.js'
import { describeTotals, noteEvents, type Verbosity } from './events.js'
import { noteVerification } from './verification.js'

const streaming = {
  ha: { help: 'one connection per origin of the service' },
  order: {
    value: 'order',
    help: 'as reports arrive, the reports of each feed in order, or only the newest of each feed',
    choices: ['arrival', 'sorted', 'newest'],
    default: 'arrival',
  },
  maxReconnects: {
    is: 'count',
    help: 'failed attempts to connect in a row after which it gives up, or unlimited',
    default: 'unlimited',
  },
  quiet: { short: 'q', help: 'print only results, and the error that ends it' },
  verbose: { short: 'v', help: 'print all that happens' },
} as const
/**
 * The options of the commands that stream, without the options of the service, the signers and the
 * metrics.
 */
export const streamingOptions: typeof streaming = inGroup('The stream', streaming)
export type StreamingOptions = Values<typeof streamingOptions> & SignerOptions

/** The configuration of a client for these options. */
export async function configure(options: StreamingOptions, io: IO): Promise<Partial<Config>> {
  const { ha, order, verbose } = options
  const signers = await findSigners(options)
  return {
    haMode: ha === true,
    continuity: { order },
    ...given({
      verify: signers && { signers },
      logging: verbose ? { logger: createLogger(io), logLevel: 'INFO' as const } : undefined,
    }),
  }
}

/** How much the command prints. */
function verbosityOf({ quiet, verbose }: StreamingOptions): Verbosity {
  return quiet ? 'quiet' : verbose ? 'verbose' : 'normal'
}

/** Runs a stream to its end, prints its events and its totals, and sets the exit code. */
export async function runToEnd(
  stream: Stream,
  feeds: readonly Feed[],
  options: StreamingOptions,
  io: IO,
  { note = line => warn(io, line), ended = [], finish }: EndOptions,
): Promise<void> {
  const verbosity = verbosityOf(options)
  const wasNoted = noteEvents(stream, feeds, verbosity, note)
  let advice: string | undefined
  let rejection: Error | undefined
  stream.on('error', error => {
    if (isStreamsError(error) && rejections.has(error.code)) rejection ??= error
  })
  // With --verbose, the client logs it.
  if (verbosity === 'normal') noteVerification(stream, note)
  try {
    await Promise.race([stream.connect().then(() => stream.closed), ...ended])
  } catch (thrown) {
    // The limit of the time without a report, where reports came.
    if (isStreamsError(thrown, 'API_TIMEOUT') && areAllRejected(stream)) io.exitCode = REJECTED
    else if (!wasNoted(thrown)) throw thrown
    else {
      advice = adviceOn(thrown)
      io.exitCode = exitCodeOf(thrown)
    }
  } finally {
    await finish?.()
  }
  if (areAllRejected(stream)) {
    const why = rejection === undefined ? '' : `: ${inOneLine(rejection.message)}`
    warn(io, `${describeRejected(stream)}${why}`)
    if (io.exitCode === 0) io.exitCode = REJECTED
  }
  if (advice !== undefined) warn(io, advice)
  if (verbosity !== 'quiet')
    for (const line of describeTotals(stream, io.exitCode !== 0)) warn(io, line)
}

/** The exit code of a stream whose reports were all rejected. `verify` has the same. */
const REJECTED = 1
/** The codes of the errors that reject a report. */
const rejections: ReadonlySet<ErrorCode> = new Set(['VERIFICATION', 'DECODING', 'WS_FRAME'])

/** Whether reports came, and every one was rejected. */
function areAllRejected(stream: Pick<Stream, 'getMetrics'>): boolean {
  const { accepted, malformed, verificationFailed } = stream.getMetrics()
  return accepted === 0 && malformed + verificationFailed > 0
}

function describeRejected(stream: Pick<Stream, 'getMetrics'>): string {
  const { malformed, verificationFailed } = stream.getMetrics()
  if (malformed === 0)
    return `${count(verificationFailed, 'report')} came, and none passed verification`
  return `${count(malformed + verificationFailed, 'message')} came, and all were rejected`
}

interface EndOptions {
  /** Prints a line. @default a warning */
  readonly note?: (line: string) => void
  /** Promises that also end the run when one of them settles. */
  readonly ended?: readonly Promise<unknown>[]
  /** Runs before the totals are printed, also after an error. */
  readonly finish?: () => unknown
}
