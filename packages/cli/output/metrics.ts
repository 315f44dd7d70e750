import { createServer, type ServerResponse } from 'node:http'
import type { Registry } from 'prom-client'
import type { Plugin } from 'sluice/client'
import { asyncDispose } from 'sluice/internal'
import type { Values } from '../command.js'
import { listen, urlOf } from '../http.js'
import { loadPackage } from '../input/files.js'
import { type IO, warn } from '../io.js'

/** The option of the commands that can serve the metrics of a stream. */
export const metricsOptions = {
  metrics: {
    is: 'place',
    help: 'serve /metrics to Prometheus, and /health: 200 while a stream is connected, else 503; on loopback unless a host is given',
  },
} as const

/** Metrics that are being served. */
export interface Metrics extends AsyncDisposable {
  /** The plugins that stand first in the stack of the client. */
  readonly plugins: readonly Plugin<never>[]
}

/**
 * Serves the metrics of the process, and of each client whose stack has the plugin, and prints the
 * URL. Without the option it does nothing.
 */
export async function startMetrics(
  { metrics }: Values<typeof metricsOptions>,
  io: IO,
): Promise<Metrics> {
  if (metrics === undefined) return { plugins: [], [asyncDispose]: async () => undefined }
  const { host, port } = metrics
  const { Registry, collectDefaultMetrics } = await loadPackage(
    '--metrics',
    'prom-client',
    () => import('prom-client'),
  )
  // Only with prom-client at hand: the plugin imports it.
  const { prometheus } = await import('sluice/plugins/prometheus')
  const register = new Registry()
  collectDefaultMetrics({ register })
  const server = createServer(function answer({ method, url }, response) {
    const page = method === 'GET' || method === 'HEAD' ? pages[url ?? ''] : undefined
    if (page === undefined) send(response, 404, 'there is /metrics, and /health\n')
    else page(register, response).catch(() => response.destroy())
  })
  const at = await listen(server, host, port, `--metrics can’t be served at ${host}:${port}`)
  warn(io, `metrics are at ${urlOf(host, at)}/metrics`)
  return {
    plugins: [prometheus({ register })],
    async [asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

const pages: Readonly<
  Record<string, (register: Registry, response: ServerResponse) => Promise<void>>
> = {
  async '/metrics'(register, response) {
    send(response, 200, await register.metrics(), register.contentType)
  },
  async '/health'(register, response) {
    const shown = await register.getSingleMetric('sluice_connections_open')?.get()
    const open = (shown?.values ?? []).reduce((sum, { value }) => sum + value, 0)
    send(response, open > 0 ? 200 : 503, `${open} connections are open\n`)
  },
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain'): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}
