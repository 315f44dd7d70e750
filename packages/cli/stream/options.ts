import { type Command, Option } from 'commander'
import type { Config } from 'sluice'
import type { StreamOptions } from 'sluice/client'
import { attempts } from '../input/arguments.js'
import type { IO } from '../io.js'
import { createLogger } from '../output/log.js'
import { addMetricsOption, type MetricsOptions } from '../output/metrics.js'
import { addServiceOptions, type ServiceOptions } from '../service/service.js'
import { addSignerOptions, findSigners, type SignerOptions } from '../service/signers.js'
import type { Verbosity } from './events.js'
import type { LookUp } from './look-up.js'

/** The options of the commands that stream. */
export interface StreamingOptions extends ServiceOptions, SignerOptions, MetricsOptions {
  readonly ha?: boolean
  readonly order: 'arrival' | 'sorted' | 'newest'
  readonly maxReconnects?: number
  readonly quiet?: boolean
  readonly verbose?: boolean
}

/** Adds them to a command, which by default tries so often. */
export function addStreamingOptions(command: Command, most: number | 'unlimited'): Command {
  const order = new Option(
    '--order <order>',
    'as reports arrive, the reports of each feed in order, or only the newest of each feed',
  )
  command
    .option('--ha', 'one connection per origin of the service')
    .addOption(order.choices(['arrival', 'sorted', 'newest']).default('arrival'))
    .option(
      '--max-reconnects <n>',
      `failed attempts to connect in a row after which it gives up, or unlimited (default: ${most})`,
      attempts,
    )
    .option('-q, --quiet', 'print results and errors alone')
    .option('-v, --verbose', 'print all that happens')
  return addServiceOptions(addSignerOptions(addMetricsOption(command)))
}

/** What they mean for the configuration of a client. */
export async function configure(options: StreamingOptions, io: IO): Promise<Partial<Config>> {
  const { ha, order, verbose } = options
  const signers = await findSigners(options)
  return {
    haMode: ha === true,
    continuity: { order },
    ...(signers === undefined ? {} : { verify: { signers } }),
    ...(verbose ? { logging: { logger: createLogger(io), logLevel: 'INFO' } } : {}),
  }
}

/** What they mean for a stream. */
export function streamOptions(
  { maxReconnects: most }: StreamingOptions,
  { signal }: IO,
): StreamOptions {
  return { signal, ...(most === undefined ? {} : { maxReconnectAttempts: most }) }
}

/** How feeds are looked up for a stream that by default tries so often. */
export function lookUpOptions(options: StreamingOptions, most: number): LookUp {
  return { maxAttempts: options.maxReconnects ?? most, isQuiet: options.quiet === true }
}

/** How much is printed. */
export function verbosityOf({ quiet, verbose }: StreamingOptions): Verbosity {
  return quiet ? 'quiet' : verbose ? 'verbose' : 'normal'
}
