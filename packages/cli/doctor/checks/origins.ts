import { setTimeout as wait } from 'node:timers/promises'
import { createClient, type Plugin } from 'sluice/client'
import { asError } from 'sluice/core'
import { parseOrigins } from 'sluice/plugins/ha-discovery'
import { generateAuthHeaders, hmacAuth } from 'sluice/plugins/hmac-auth'
import { retry } from 'sluice/plugins/retry'
import { observedAt } from '../../output/feeds.js'
import { type Check, exitCodes, type Finding, failed, notChecked, ok, warning } from '../check.js'
import { type Context, formatSeconds, median } from '../context.js'

/** How many feeds are watched by default. */
const SOME = 5
/** Milliseconds for opening and closing the connections, in addition to the time of watching. */
const MARGIN = 25_000

/** Finds the origins, and watches a connection to each of them for some seconds. */
export const origins: Check = {
  name: 'origins',
  needs: ['credentials'],
  exitCode: exitCodes.service,
  deadline: ({ subject }) => subject.seconds * 1000 + MARGIN,
  async run(context, signal) {
    const readable = await context.readableFeeds()
    const given = context.subject.feedIDs.filter(feedID => readable.includes(feedID))
    const feedIDs = given.length > 0 ? given : readable.slice(0, SOME)
    const { found, finding } = await findOrigins(context)
    if (feedIDs.length === 0) return [finding, notChecked('because no feed may be read')]
    const watched = await Promise.all(
      found.map(origin => watchOrigin(context, origin, feedIDs, signal)),
    )
    return [finding, ...watched.map((each, at) => describe(found[at] as Origin, each, context))]
  },
}

/** Finds the origins to connect to. The finding says whether they allow high availability. */
async function findOrigins(
  context: Context,
): Promise<{ readonly found: readonly Origin[]; readonly finding: Finding }> {
  const { wsEndpoints } = context
  const [url = ''] = wsEndpoints
  if (wsEndpoints.length > 1)
    return {
      found: wsEndpoints.map(each => ({ name: new URL(each).host, url: each, id: undefined })),
      finding: ok(`high availability is possible: WS_URL has ${wsEndpoints.length} origins`),
    }
  const { host } = new URL(url)
  try {
    const ids = await discover(context, url)
    const found = ids.map(id => ({ name: id, url, id }))
    const facts = { origins: ids.length }
    if (ids.length > 1)
      return { found, finding: ok(`high availability is possible: ${ids.length} origins`, facts) }
    return {
      found,
      finding: warning(
        `high availability is not possible: ${host} has one origin`,
        aloneAdvice(host),
        facts,
      ),
    }
  } catch (thrown) {
    return {
      found: [{ name: host, url, id: undefined }],
      finding: warning(
        `high availability is not possible: ${host} does not list its origins: ${asError(thrown).message}`,
        aloneAdvice(host),
      ),
    }
  }
}

function aloneAdvice(host: string): string {
  return host.includes('testnet')
    ? 'only mainnet has several'
    : 'a stream has no second way when this one is lost; ask the service’s operator'
}

/**
 * Asks for the list of origins as a stream with `haDiscovery` does. The request is signed with the
 * time of the service's clock.
 */
async function discover(context: Context, wsEndpoint: string): Promise<readonly string[]> {
  const url = new URL('/', wsEndpoint)
  url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:'
  const { apiKey = '', userSecret = '' } = context.subject.credentials ?? {}
  const time = Date.now() + (await context.correction())
  const headers = generateAuthHeaders(apiKey, userSecret, 'HEAD', url.href, '', time)
  const answer = await context.head(url, new Headers(Object.entries(headers)))
  if (answer.status < 200 || answer.status > 299)
    throw new Error(`HEAD / is answered with ${answer.status}`)
  return parseOrigins(answer.headers.get('x-cll-available-origins'))
}

/** Makes the finding about an origin. */
function describe({ name }: Origin, watched: Watched, { subject: { seconds } }: Context): Finding {
  const { connectMs, roundTripMs, ages, error, isGone, losses } = watched
  const reports = ages.length
  const ageMs = median(ages)
  const maxAgeMs = ages.reduce((most, age) => Math.max(most, age), ageMs)
  const facts = {
    origin: name,
    ...{ connectMs, roundTripMs, reports, losses },
    ...(reports > 0 ? { ageMs, maxAgeMs } : {}),
  }
  const reason = error?.message ?? 'no reason is known'
  if (isGone)
    return failed(
      `origin ${name} can’t be connected${connectMs === undefined ? '' : ' again'}: ${reason}`,
      'streams go on with the other origins, where there are any; if it lasts, ask the service’s operator',
      facts,
    )
  const trip = roundTripMs === undefined ? '' : `, round trip ${Math.round(roundTripMs)} ms`
  const brought =
    reports === 0
      ? `no report in ${seconds} s`
      : `${reports} reports in ${seconds} s, median age ${formatSeconds(ageMs)}, highest ${formatSeconds(maxAgeMs)}`
  const text = `origin ${name}: connected in ${connectMs} ms${trip}; ${brought}`
  if (losses > 0)
    return warning(
      `${text}; lost ${losses} times, the last time: ${reason}`,
      'look at proxies and firewalls on the way, which close long connections',
      facts,
    )
  if (reports > 0) return ok(text, facts)
  const advice = 'the market of the feed may be closed: name another feed, or more --seconds'
  return warning(text, advice, facts)
}

/** An origin, or a single endpoint, to which a connection is opened. */
interface Origin {
  /** The name of the origin in the doctor's report. */
  readonly name: string
  readonly url: string
  /**
   * The id of the origin that the WebSocket request names; undefined if the service has not given
   * one.
   */
  readonly id: string | undefined
}

/** The measurements of an origin. */
interface Watched {
  /** Milliseconds until the first connection was open; undefined if none was. */
  readonly connectMs: number | undefined
  readonly roundTripMs: number | undefined
  /** The age of each report on arrival: milliseconds since its observations. */
  readonly ages: readonly number[]
  /** The last error: why the connection could not be opened, or why it was lost. */
  readonly error: Error | undefined
  /** True if the connection was never open, or could not be opened again. */
  readonly isGone: boolean
  /** How often the open connection was lost. */
  readonly losses: number
}

/** How often the client retries to open a connection. */
const ATTEMPTS = 3
/** Milliseconds before the client retries. */
const RECONNECT_INTERVAL = 200
/** The most ages that are stored, which limits the memory. */
const MAX_AGES = 100_000

/** A plugin that makes every stream of a client connect to one origin. */
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

/**
 * Streams feeds from one origin with a separate client, for the number of seconds in the context.
 */
async function watchOrigin(
  context: Context,
  { url, id }: Origin,
  feedIDs: readonly string[],
  signal: AbortSignal,
): Promise<Watched> {
  const { endpoint, network, seconds, credentials } = context.subject
  const { apiKey = '', userSecret = '' } = credentials ?? {}
  const correction = await context.correction()
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
