import type { Config } from 'sluice'
import type { Feed, Stream } from 'sluice/client'
import { given, inGroup, type Values } from '../command.js'
import { adviceOn, exitCodeOf } from '../errors.js'
import { type IO, warn } from '../io.js'
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
  // With --verbose, the client logs it.
  if (verbosity === 'normal') noteVerification(stream, note)
  try {
    await Promise.race([stream.connect().then(() => stream.closed), ...ended])
  } catch (thrown) {
    if (!wasNoted(thrown)) throw thrown
    advice = adviceOn(thrown)
    io.exitCode = exitCodeOf(thrown)
  } finally {
    await finish?.()
  }
  if (advice !== undefined) warn(io, advice)
  if (verbosity !== 'quiet')
    for (const line of describeTotals(stream, io.exitCode !== 0)) warn(io, line)
}

interface EndOptions {
  /** Prints a line. @default a warning */
  readonly note?: (line: string) => void
  /** Promises that also end the run when one of them settles. */
  readonly ended?: readonly Promise<unknown>[]
  /** Runs before the totals are printed, also after an error. */
  readonly finish?: () => unknown
}
