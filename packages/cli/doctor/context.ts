import type { Socket } from 'node:net'
import { type Config, createClient } from 'sluice'
import type { Client, Fetch } from 'sluice/client'
import { createLifetime, ValidationError } from 'sluice/core'
import {
  checkEgress,
  createEgress,
  createTransport,
  type FindProxy,
  type Target,
  targetOf,
} from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Credentials } from 'sluice/plugins/hmac-auth'
import type { LogOptions } from '../service/nats.js'
import { type ClockReading, readClock } from './read-clock.js'

/** The service that the doctor checks, and the machine that asks it. */
export interface Subject {
  readonly endpoint: string
  /** One URL, or several separated by commas. */
  readonly wsEndpoint: string
  /** Undefined where the environment has none. */
  readonly credentials: Credentials | undefined
  /** The ways out of this machine, as a client has them. */
  readonly network: Pick<Config, 'proxy' | 'tls'>
  /** The feeds that the user asked about, in normal form. */
  readonly feedIDs: readonly string[]
  /** Seconds for which origins are watched. */
  readonly seconds: number
  /** The log of a relay, where it is to be checked. */
  readonly log: LogOptions | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  /** The version of Node, without its `v`. */
  readonly nodeVersion: string
  /** The folder of the package. */
  readonly folder: string
}

/** What checks work with. What several of them ask for is asked for once. */
export interface Context extends Subject {
  /** Aborts when the user stops the command. */
  readonly signal: AbortSignal
  /** Where REST and streams are, each host and port once. */
  readonly targets: readonly Target[]
  readonly wsEndpoints: readonly string[]
  readonly findProxy: FindProxy
  /** Opens a connection without TLS: to the target, or through the tunnel of the proxy that leads there. */
  open(target: Target, signal: AbortSignal): Promise<Socket>
  /** Sends a request that nothing signs or tries again. */
  readonly fetch: Fetch
  /** A client that tries each request once; where a clock is wrong, twice. */
  client(): Client<DecodedReport>
  /** The ids of the feeds that the credentials may read. */
  readableFeeds(): Promise<readonly string[]>
  /** The service's clock; undefined where its answers have no date. */
  clock(): Promise<ClockReading | undefined>
  /** Ends what is still open. */
  close(): Promise<void>
}

const TIMEOUT = 10_000

/** Makes the context of a run. Throws ValidationError where an option breaks its rule. */
export function createContext(subject: Subject, signal: AbortSignal): Context {
  const { endpoint, wsEndpoint, credentials, network } = subject
  const life = createLifetime(signal)
  const { findProxy, tls } = checkEgress(network) ?? { findProxy: () => undefined, tls: {} }
  const { fetch = globalThis.fetch } = createTransport(network, life)
  const wsEndpoints = wsEndpoint.split(',').map(url => url.trim())
  const targets = new Map(
    [endpoint, ...wsEndpoints]
      .map(url => targetOf(new URL(url)))
      .map(target => [nameOf(target), target]),
  )

  const client = once(function makeClient(): Client<DecodedReport> {
    if (credentials === undefined) throw new ValidationError('there are no credentials')
    const { apiKey, userSecret } = credentials
    const config = { apiKey, userSecret, endpoint, wsEndpoint, ...network }
    const made = createClient({ ...config, retryAttempts: 0, timeout: TIMEOUT })
    life.defer(() => made.close())
    return made
  })

  return {
    ...subject,
    signal: life.signal,
    targets: [...targets.values()],
    wsEndpoints,
    findProxy,
    fetch,
    open(target, until) {
      // Which proxy there is depends on TLS, so it is looked for before TLS is taken away.
      const proxy = findProxy(target)
      const egress = createEgress({ findProxy: () => proxy, tls }, life.signal)
      return egress.openSocket({ ...target, isSecure: false }, until)
    },
    client,
    readableFeeds: once(async () => {
      const feeds = await client().listFeeds({ signal: life.signal })
      return feeds.map(({ feedID }) => feedID)
    }),
    clock: once(() => readClock(fetch, endpoint, life.signal)),
    async close() {
      life.end()
      if (credentials !== undefined) await client().close()
    },
  }
}

/** A target as people write it: `host:443`. */
export function nameOf({ host, port }: Target): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function once<Made>(make: () => Made): () => Made {
  let made: { readonly value: Made } | undefined
  return function get() {
    made ??= { value: make() }
    return made.value
  }
}
