import { createServer, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Registry } from 'prom-client'
import { asyncDispose } from '../core/async.js'
import { foreignCause, ValidationError } from '../core/errors.js'
import {
  checkBoolean,
  checkText,
  number,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../core/options.js'
import { codeOf } from '../platform/node/files.js'
import { listen } from '../platform/node/listen.js'
import { labelName, prometheusName } from '../plugins/telemetry/metrics.js'
import type { Health, Measure } from './health.js'

/** Options of `serveHealth`. */
export interface ServeHealthOptions {
  /** The port. With 0, any free port is used. @default 0 */
  readonly port?: number
  /** The address. @default '127.0.0.1' */
  readonly host?: string
  /** The registry of prom-client whose metrics are served. @default a new registry */
  readonly register?: Registry
  /**
   * Whether the registry gets the metrics of the process: memory, CPU, the event loop.
   * @default true
   */
  readonly processMetrics?: boolean
}

const schema = {
  port: withDefault(0, number({ min: 0, max: 65_535, whole: true })),
  host: withDefault('127.0.0.1', checkText),
  register: unchecked<Registry | undefined>,
  processMetrics: withDefault(true, checkBoolean),
} satisfies Schema<ServeHealthOptions>

/** A server of health and metrics. */
export interface HealthServer extends AsyncDisposable {
  /** The URL of the server: `http://HOST:PORT`. */
  readonly url: string
  /** The registry whose metrics are served: give it to the plugin `prometheus`. */
  readonly register: Registry
  /** Adds a service. Two services of one name must differ in their names. */
  add(health: Health): void
  /** Says what the process waits for, until the first service is added. */
  waitFor(what: string): void
  /** Closes every connection, and stops the server. Idempotent. */
  close(): Promise<void>
}

/** The most connections. Prometheus and an orchestrator need a few. */
const MAX_CONNECTIONS = 64
/** The times in milliseconds and the sizes after which a connection is closed. */
const limits = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 30_000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 8192,
}

/** Answers a request: the status, and the lines of the body. */
type Page = (
  services: readonly Health[],
  awaited: string | undefined,
) => readonly [status: number, lines: readonly string[]]

const pages: Readonly<Record<string, Page>> = {
  '/live': services => [
    services.every(({ isAlive }) => isAlive) ? 200 : 503,
    services.flatMap(each => linesOf(each, 'alive', each.isAlive)),
  ],
  '/ready': (services, awaited) => [
    services.length > 0 && services.every(({ isReady }) => isReady) ? 200 : 503,
    services.length === 0
      ? [awaited === undefined ? 'starting' : `starting: waiting for ${awaited}`]
      : services.flatMap(each => linesOf(each, 'ready', each.isReady)),
  ],
}

function linesOf({ service, problems }: Health, what: string, is: boolean): readonly string[] {
  return [
    `${service}: ${is ? '' : 'not '}${what}`,
    ...problems.map(
      ({ cause, severity, since, message }) =>
        `${service}: ${severity}: ${cause} since ${new Date(since).toISOString()}: ${message}`,
    ),
  ]
}

/**
 * Serves the health of services over HTTP: `/live` and `/ready` for an orchestrator, `/metrics` for
 * Prometheus. Needs prom-client.
 *
 * @example
 * const server = await serveHealth({ port: 9464 })
 * server.add(relay.health)
 */
export async function serveHealth(given?: ServeHealthOptions): Promise<HealthServer> {
  const options = readOptions('serveHealth', given, schema)
  const { port, host, processMetrics } = options
  const { Registry, Gauge, Counter, collectDefaultMetrics } = await loadPrometheus()
  const register = options.register ?? new Registry()
  if (processMetrics && register.getSingleMetric('process_start_time_seconds') === undefined)
    collectDefaultMetrics({ register })
  const services: Health[] = []
  let awaited: string | undefined
  const shown = new Shown(services, register, { Gauge, Counter })

  async function answer(path: string, response: ServerResponse): Promise<void> {
    const page = pages[path === '/health' ? '/ready' : path]
    for (const each of services) each.refresh()
    if (page !== undefined) {
      const [status, lines] = page(services, awaited)
      return send(response, status, `${lines.join('\n')}\n`)
    }
    if (path !== '/metrics') return send(response, 404, 'there are /metrics, /ready and /live\n')
    send(response, 200, await register.metrics(), register.contentType)
  }

  const server = createServer(limits, ({ method, url = '' }, response) => {
    if (method !== 'GET' && method !== 'HEAD') return send(response, 405, 'requests are GET\n')
    answer(url, response).catch(() => response.destroy())
  })
  const open = new Set<Socket>()
  server.on('connection', socket => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    // The oldest makes room, so that connections which bring nothing keep nobody out.
    const [oldest] = open
    if (open.size > MAX_CONNECTIONS) oldest?.destroy()
  })
  const authority = await listen(server, port, host).catch(cause => {
    const reason = reasons[codeOf(cause)] ?? codeOf(cause)
    throw new ValidationError(`port ${port} of ${host} can’t be listened on: ${reason}`, { cause })
  })
  let closing: Promise<unknown> | undefined
  async function close(): Promise<void> {
    closing ??= new Promise(resolve => {
      server.close(resolve)
      server.closeAllConnections()
    })
    await closing
  }
  return {
    url: `http://${authority}`,
    register,
    add(health) {
      shown.add(health)
      services.push(health)
    },
    waitFor(what) {
      awaited = what
    },
    close,
    [asyncDispose]: close,
  }
}

/** The reasons why a server can't listen, in words, by error code. */
const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'it is in use',
  EACCES: 'that needs more rights',
  EADDRNOTAVAIL: 'this machine has no such address',
}

async function loadPrometheus(): Promise<typeof import('prom-client')> {
  try {
    return await import('prom-client')
  } catch (thrown) {
    throw new ValidationError(
      'the package prom-client could not be loaded: npm install prom-client',
      {
        cause: foreignCause(thrown),
      },
    )
  }
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain'): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}

const SERVICE = 'sluice_service'
const CAUSE = 'sluice_cause'

/** The classes of prom-client for metrics. */
type Library = Pick<typeof import('prom-client'), 'Gauge' | 'Counter'>

/** The metrics of services, in a registry. */
class Shown {
  readonly #register: Registry
  readonly #library: Library

  constructor(services: readonly Health[], register: Registry, library: Library) {
    this.#register = register
    this.#library = library
    this.#show('sluice_ready', 'Whether a service does its work: 1, or 0', [SERVICE], () =>
      services.map(({ service, isReady }) => [{ [SERVICE]: service }, isReady ? 1 : 0]),
    )
    this.#show(
      'sluice_problem',
      'Whether a service has a problem of this cause: 1, or 0',
      [SERVICE, CAUSE],
      () =>
        services.flatMap(health => {
          const present = new Set(health.problems.map(({ cause }) => cause))
          return Object.keys(health.causes).map(cause => [
            { [SERVICE]: health.service, [CAUSE]: cause },
            present.has(cause) ? 1 : 0,
          ])
        }),
    )
    this.#show(
      'sluice_problems_total',
      'How often a problem of this cause has begun',
      [SERVICE, CAUSE],
      () =>
        services.flatMap(health =>
          Object.keys(health.causes).map(cause => [
            { [SERVICE]: health.service, [CAUSE]: cause },
            health.countOf(cause),
          ]),
        ),
      'counter',
    )
  }

  /** Registers the numbers of a service. */
  add({ service, measures }: Health): void {
    const taken = measures.find(each => this.#register.getSingleMetric(prometheusName(each)))
    if (taken !== undefined)
      throw new ValidationError(
        `the registry has a metric ${prometheusName(taken)} already: serve another ${service} from its own registry`,
      )
    for (const measure of measures) {
      const { description, attribute } = measure
      const labels = attribute === undefined ? [] : [labelName(attribute)]
      const read = () => valuesOf(measure)
      this.#show(prometheusName(measure), description, labels, read, measure.kind)
    }
  }

  /** Registers a metric whose values are read when they are asked for. */
  #show(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => readonly (readonly [labels: Record<string, string>, value: number])[],
    kind: Measure['kind'] = 'gauge',
  ): void {
    const settings = { name, help, registers: [this.#register], labelNames: [...labelNames] }
    const { Gauge, Counter } = this.#library
    if (kind === 'gauge')
      new Gauge({
        ...settings,
        collect() {
          this.reset()
          for (const [labels, value] of read()) this.set(labels, value)
        },
      })
    else
      new Counter({
        ...settings,
        collect() {
          this.reset()
          for (const [labels, value] of read()) this.inc(labels, value)
        },
      })
  }
}

function valuesOf({
  attribute,
  read,
}: Measure): readonly (readonly [labels: Record<string, string>, value: number])[] {
  const value = read()
  if (value === undefined) return []
  if (typeof value === 'number') return [[{}, value]]
  const label = labelName(attribute ?? '')
  return Array.from(value, ([each, count]) => [{ [label]: each }, count])
}
