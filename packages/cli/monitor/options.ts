import type { LogOptions } from '../service/nats.js'
import type { ServiceOptions } from '../service/service.js'
import type { SignerOptions } from '../service/signers.js'

/** Where the page is, and when a feed is stale. */
export interface MonitorSettings {
  readonly host: string
  /** 0 is any free one. */
  readonly port: number
  /** Seconds without a report. */
  readonly stale: number
}

/** The options of `monitor`. */
export interface MonitorOptions
  extends ServiceOptions,
    SignerOptions,
    MonitorSettings,
    Partial<LogOptions> {
  readonly ha?: boolean
  readonly demo?: boolean
}
