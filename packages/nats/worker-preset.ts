import type { Plugin } from 'sluice/client'
import { checkOptions } from 'sluice/core'
import { type ContinuityOptions, continuity } from 'sluice/plugins/continuity'
import { allDecoders, type DecodedReport, decoders } from 'sluice/plugins/decoders'
import { dedup } from 'sluice/plugins/dedup'
import { type LoggingConfig, logging } from 'sluice/plugins/logging'
import { retry } from 'sluice/plugins/retry'
import { type VerifyOptions, verify } from 'sluice/plugins/verify'
import { queueDeliveries } from './queue-worker.js'

/**
 * How many milliseconds of missing reports are fetched by default: a day, because requests to the
 * log cost the service nothing.
 */
const MAX_BACKFILL = 86_400_000

/** Options of `queuePreset`. */
export interface QueuePresetOptions {
  /** How signatures are verified, and which signers are accepted. @default they are not verified */
  readonly verify?: VerifyOptions
  /** The target and the level of log lines. @default nothing is logged */
  readonly logging?: LoggingConfig
}

/** Options of `workerPreset`. */
export interface WorkerPresetOptions extends QueuePresetOptions {
  /**
   * How missing reports are fetched from the log, and in which order reports are delivered. By
   * default, missing reports of one day are fetched.
   */
  readonly continuity?: ContinuityOptions
}

const queueNames = { verify: true, logging: true }

/**
 * The default preset for a client of the log. It has no credentials, and no plugins that reduce the
 * load on the service.
 */
export function workerPreset(given?: WorkerPresetOptions): readonly Plugin<DecodedReport>[] {
  const options = checkOptions('workerPreset', given, { ...queueNames, continuity: true })
  return [
    logging(options.logging),
    decoders(...allDecoders),
    continuity({ maxBackfill: MAX_BACKFILL, ...options.continuity }),
    dedup(),
    ...(options.verify === undefined ? [] : [verify(options.verify)]),
    retry(),
  ]
}

/**
 * The preset for a worker of a queue. The worker gets some of the reports, and each of them at
 * least once.
 */
export function queuePreset(given?: QueuePresetOptions): readonly Plugin<DecodedReport>[] {
  const options = checkOptions('queuePreset', given, queueNames)
  return [
    logging(options.logging),
    decoders(...allDecoders),
    ...(options.verify === undefined ? [] : [verify(options.verify)]),
    retry(),
    queueDeliveries(),
  ]
}
