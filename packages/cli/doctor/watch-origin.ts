import { setTimeout as wait } from 'node:timers/promises'
import type { Plugin } from 'sluice/client'
import { createClient } from 'sluice/client'
import { hmacAuth } from 'sluice/plugins/hmac-auth'
import { retry } from 'sluice/plugins/retry'
import { correctionOf, observedAt } from './age.js'
import type { Context } from './context.js'

/** Where a connection is opened to. */
export interface Origin {
  /** As the report names it. */
  readonly name: string
  readonly url: string
  /** What the upgrade asks for, where the service has given one. */
  readonly id: string | undefined
}

/** What was seen of an origin. */
export interface Watched {
  /** Milliseconds for the first connection; undefined where there was none. */
  readonly connectMs: number | undefined
  readonly roundTripMs: number | undefined
  /** Milliseconds from the observations to the arrival, of each report. */
  readonly ages: readonly number[]
  /** Why the connection could not be opened, or was lost, the last time. */
  readonly error: Error | undefined
  /** True where it was never open, or could not be opened again. */
  readonly isGone: boolean
  /** How often it was lost. */
  readonly losses: number
}

/** How often a connection is tried again that can't be opened. */
const ATTEMPTS = 3
const RECONNECT_INTERVAL = 200
/** Reports whose ages are stored. */
const MAX_AGES = 100_000

/** Has every stream of a client ask for one origin. */
function toOrigin(originID: string): Plugin<never> {
  return {
    name: 'to-origin',
    call: next => call => {
      if (call.kind !== 'stream') return next(call)
      const headers = new Headers(call.headers)
      headers.set('x-cll-origin', originID)
      return next({ ...call, originID, headers })
    },
  }
}

/** Streams feeds from one origin for the seconds of the context, over a connection of its own. */
export async function watchOrigin(
  context: Context,
  { url, id }: Origin,
  feedIDs: readonly string[],
  signal: AbortSignal,
): Promise<Watched> {
  const { endpoint, network, seconds, credentials } = context
  const { apiKey = '', userSecret = '' } = credentials ?? {}
  const correction = await correctionOf(context)
  const client = createClient({
    endpoint,
    wsEndpoint: url,
    ...network,
    plugins: [
      ...(id === undefined ? [] : [toOrigin(id)]),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ],
  })
  const ages: number[] = []
  let connectingAt = performance.now()
  let connectMs: number | undefined
  let error: Error | undefined
  let losses = 0
  try {
    const stream = client.createStream(feedIDs, {
      signal,
      maxReconnectAttempts: ATTEMPTS,
      reconnectInterval: RECONNECT_INTERVAL,
    })
    stream.on('status', function note(status) {
      if (status.type === 'connecting') connectingAt = performance.now()
      if (status.type === 'connected') connectMs ??= Math.round(performance.now() - connectingAt)
      if (status.type === 'disconnected' && status.wasOpen) losses++
      if (status.type === 'disconnected' || status.type === 'failed') error = status.error
    })
    stream.on('error', failure => {
      error ??= failure
    })
    stream.on('report', report => {
      if (ages.length < MAX_AGES) ages.push(Date.now() + correction - observedAt(report))
    })
    const hasGone = await stream
      .connect()
      .then(() => Promise.race([wait(seconds * 1000, false, { signal }), stream.closed]))
      .then(
        () => false,
        () => true,
      )
    const { origins } = stream.getMetrics()
    const { roundTripMs } = Object.values(origins)[0] ?? {}
    return { connectMs, roundTripMs, ages, error, losses, isGone: hasGone }
  } finally {
    await client.close()
  }
}
