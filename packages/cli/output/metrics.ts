import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Command } from 'commander'
import { InvalidArgumentError } from 'commander'
import type { Registry } from 'prom-client'
import type { Plugin } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { type IO, warn } from '../io.js'

/** An option of the commands that stream. */
export interface MetricsOptions {
  readonly metrics?: Place
}

/** Where metrics are served. */
export interface Place {
  readonly host: string
  readonly port: number
}

/** Metrics that are being served. */
export interface Metrics extends AsyncDisposable {
  /** Stand first in the stack of the client. */
  readonly plugins: readonly Plugin<never>[]
}

/** Adds the option to a command. */
export function addMetricsOption(command: Command): Command {
  return command.option(
    '--metrics <[host:]port>',
    'serve /metrics to Prometheus, and /health: 200 while a stream is connected, else 503; on loopback unless a host is given',
    readPlace,
  )
}

function readPlace(text: string): Place {
  const [, host = '127.0.0.1', port = ''] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? []
  if (port === '' || Number(port) > 65_535)
    throw new InvalidArgumentError('must be a port, or a host and a port: 9464, 0.0.0.0:9464')
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port) }
}

/** Serves the metrics of clients that have the plugin in their stacks, and those of the process, and says where; nothing without the option. */
export async function startMetrics({ metrics }: MetricsOptions, io: IO): Promise<Metrics> {
  if (metrics === undefined) return { plugins: [], [Symbol.asyncDispose]: async () => undefined }
  const { host, port } = metrics
  const { Registry, collectDefaultMetrics } = await loadPromClient()
  const { prometheus } = await import('sluice/plugins/prometheus')
  const register = new Registry()
  collectDefaultMetrics({ register })
  const server = createServer(function answer({ method, url }, response) {
    const page = method === 'GET' || method === 'HEAD' ? pages[url ?? ''] : undefined
    if (page === undefined) send(response, 404, 'there is /metrics, and /health\n')
    else page(register, response).catch(() => response.destroy())
  })
  const at = await listen(server, host, port)
  warn(io, `metrics are at http://${host.includes(':') ? `[${host}]` : host}:${at}/metrics`)
  return {
    plugins: [prometheus({ register })],
    async [Symbol.asyncDispose]() {
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

async function loadPromClient(): Promise<typeof import('prom-client')> {
  try {
    return await import('prom-client')
  } catch (cause) {
    throw new ValidationError('--metrics needs the package prom-client: npm install prom-client', {
      cause,
    })
  }
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', cause => {
      const { code } = cause as NodeJS.ErrnoException
      reject(
        new ValidationError(`--metrics can’t be served at ${host}:${port}: ${code}`, { cause }),
      )
    })
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}
