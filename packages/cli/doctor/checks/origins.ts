import { asError } from 'sluice/core'
import { parseOrigins } from 'sluice/plugins/ha-discovery'
import { generateAuthHeaders } from 'sluice/plugins/hmac-auth'
import { correctionOf, formatSeconds } from '../age.js'
import { type Check, exitCodes, type Finding, failed, notChecked, ok, warning } from '../check.js'
import type { Context } from '../context.js'
import { median } from '../median.js'
import { type Origin, type Watched, watchOrigin } from '../watch-origin.js'

/** Feeds that are watched where none are given. */
const SOME = 5
/** Milliseconds for the connections before and after the time for which they are watched. */
const MARGIN = 25_000

/** How many origins there are, and how each one does for some seconds. */
export const origins: Check = {
  name: 'origins',
  needs: ['credentials'],
  exitCode: exitCodes.service,
  deadline: ({ seconds }) => seconds * 1000 + MARGIN,
  async run(context, signal) {
    const readable = await context.readableFeeds()
    const given = context.feedIDs.filter(feedID => readable.includes(feedID))
    const feedIDs = given.length > 0 ? given : readable.slice(0, SOME)
    const { found, finding } = await findOrigins(context, signal)
    if (feedIDs.length === 0) return [finding, notChecked('because no feed may be read')]
    const watched = await Promise.all(
      found.map(origin => watchOrigin(context, origin, feedIDs, signal)),
    )
    return [finding, ...watched.map((each, at) => describe(found[at] as Origin, each, context))]
  },
}

/** The origins to connect to, and whether high availability is possible with them. */
async function findOrigins(
  context: Context,
  signal: AbortSignal,
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
    const ids = await discover(context, url, signal)
    const found = ids.map(id => ({ name: id, url, id }))
    const facts = { origins: ids.length }
    if (ids.length > 1)
      return { found, finding: ok(`high availability is possible: ${ids.length} origins`, facts) }
    return {
      found,
      finding: warning(
        `high availability is not possible: ${host} has one origin`,
        alone(host),
        facts,
      ),
    }
  } catch (thrown) {
    return {
      found: [{ name: host, url, id: undefined }],
      finding: warning(
        `high availability is not possible: ${host} does not list its origins: ${asError(thrown).message}`,
        alone(host),
      ),
    }
  }
}

function alone(host: string): string {
  return host.includes('testnet')
    ? 'only mainnet has several'
    : 'a stream has no second way when this one is lost; ask the service’s operator'
}

/** Asks for the list of origins as a stream with `haDiscovery` does, signed by the service's clock. */
async function discover(
  context: Context,
  wsEndpoint: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const url = new URL('/', wsEndpoint)
  url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:'
  const { apiKey = '', userSecret = '' } = context.credentials ?? {}
  const time = Date.now() + (await correctionOf(context))
  const headers = await generateAuthHeaders(apiKey, userSecret, 'HEAD', url.href, '', time)
  const answer = await context.fetch(url, { method: 'HEAD', headers, redirect: 'manual', signal })
  if (!answer.ok) throw new Error(`HEAD / is answered with ${answer.status}`)
  return parseOrigins(answer.headers.get('x-cll-available-origins'))
}

/** What is to be said of an origin. */
function describe({ name }: Origin, watched: Watched, { seconds }: Context): Finding {
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
