import type { Config } from 'sluice'
import { given, type Values } from '../command.js'
import type { IO } from '../io.js'
import { createLogger } from '../output/log.js'
import { findSigners, type SignerOptions } from '../service/signers.js'
import type { Verbosity } from './events.js'

/** The options of the commands that stream, beside those of the service, the signers and the metrics. */
export const streamingOptions = {
  ha: { help: 'one connection per origin of the service' },
  order: {
    value: 'order',
    help: 'as reports arrive, the reports of each feed in order, or only the newest of each feed',
    choices: ['arrival', 'sorted', 'newest'],
    default: 'arrival',
  },
  maxReconnects: {
    value: 'n',
    help: 'failed attempts to connect in a row after which it gives up, or unlimited',
    is: 'count',
    default: 'unlimited',
  },
  quiet: { short: 'q', help: 'print only results, and the error that ends it' },
  verbose: { short: 'v', help: 'print all that happens' },
} as const
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
export function verbosityOf({ quiet, verbose }: StreamingOptions): Verbosity {
  return quiet ? 'quiet' : verbose ? 'verbose' : 'normal'
}
