import type { Plugin } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { type Health, serveHealth } from 'sluice/health'
import { asyncDispose, foreignCause } from 'sluice/internal'
import type { Values } from '../command.js'
import { type IO, warn } from '../io.js'

/** The option of the commands that can serve their health and their metrics. */
export const metricsOptions = {
  metrics: {
    is: 'place',
    help: 'serve /metrics to Prometheus, and /ready and /live, which say what is wrong; on loopback unless a host is given',
  },
} as const

/** Health and metrics that are being served. */
export interface Metrics extends AsyncDisposable {
  /** The plugins that stand first in the stack of the client. */
  readonly plugins: readonly Plugin<never>[]
  /** Serves the health of a service too. */
  add(health: Health): void
  /** Says in `/ready` what the command waits for, until it has a service. */
  waitFor(what: string): void
}

/**
 * Serves the metrics of the process and of each client whose stack has the plugin, and the health
 * of the services that are added. Prints the URL. Without the option it does nothing.
 */
export async function startMetrics(
  { metrics }: Values<typeof metricsOptions>,
  io: IO,
): Promise<Metrics> {
  if (metrics === undefined)
    return {
      plugins: [],
      add: () => undefined,
      waitFor: () => undefined,
      [asyncDispose]: async () => undefined,
    }
  const server = await serveHealth(metrics).catch(cause => {
    throw new ValidationError(`--metrics: ${cause.message}`, { cause: foreignCause(cause) })
  })
  // Only now: the plugin imports prom-client, which `serveHealth` has found.
  const { prometheus } = await import('sluice/plugins/prometheus')
  const { register } = server
  warn(io, `metrics are at ${server.url}/metrics`)
  return {
    plugins: [prometheus({ register })],
    add: server.add,
    waitFor: server.waitFor,
    [asyncDispose]: server.close,
  }
}
