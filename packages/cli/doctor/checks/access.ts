import { findFeed } from 'sluice'
import { isDenial, isNotFound, type WireErrorFacts } from 'sluice/client'
import { type Check, exitCodes, type Finding, failed, notChecked, ok, warning } from '../check.js'
import { type Context, formatSeconds, median } from '../context.js'

/**
 * The service rejects a signature whose time differs from its clock by more than this many
 * milliseconds.
 */
const ALLOWED = 5000
/** A difference above this many milliseconds is a warning. */
const WARNING = 2000
/** A client corrects a clock that is wrong by at most this many milliseconds: a day. */
const CORRECTED = 86_400_000

/**
 * Checks whether this machine's clock agrees with the service's clock. The service rejects
 * signatures whose time is wrong.
 */
export const clock: Check = {
  name: 'clock',
  needs: ['packages', 'tls'],
  exitCode: exitCodes.access,
  async run(context) {
    const reading = await context.clock()
    if (reading === undefined)
      return [
        warning(
          'the service’s answers have no Date, so its clock is not known',
          'see that this machine’s clock is set by NTP',
        ),
      ]
    const { offset, error } = reading
    const facts = { offsetMs: offset, errorMs: error }
    const least = Math.max(0, Math.abs(offset) - error)
    const difference = `${seconds(Math.abs(offset), error)} ${offset > 0 ? 'behind' : 'ahead of'} the service’s`
    if (least <= WARNING) return [ok(`agrees with the service’s, ${seconds(offset, error)}`, facts)]
    const advice = 'set the clock of this machine: by NTP, as timedatectl set-ntp true'
    if (least <= ALLOWED) return [warning(`is ${difference}`, advice, facts)]
    const consequence =
      Math.abs(offset) > CORRECTED
        ? 'no request is accepted'
        : 'the service accepts signatures within 5 s, and sluice corrects its own'
    return [failed(`is ${difference}: ${consequence}`, advice, facts)]
  },
}

function seconds(ms: number, error: number): string {
  return `${(ms / 1000).toFixed(1)} s ± ${(error / 1000).toFixed(1)} s`
}

/** Checks whether the API key and the secret are set, and whether the service accepts them. */
export const credentials: Check = {
  name: 'credentials',
  needs: ['packages', 'tls'],
  exitCode: exitCodes.access,
  async run(context) {
    if (context.subject.credentials === undefined)
      return [
        failed(
          'API_KEY and USER_SECRET are not set',
          'set both in the environment, as the service’s operator has given them to you',
        ),
      ]
    try {
      const feeds = await context.readableFeeds()
      return [ok(`accepted; ${feeds.length} feeds may be read`, { feeds: feeds.length })]
    } catch (thrown) {
      if (!isDenial(thrown)) throw thrown
      return [await explain(thrown, context)]
    }
  },
}

/**
 * Explains a rejection. The service answers a wrong key, a wrong secret and a wrong clock in the
 * same way, and only the clock can be checked here.
 */
async function explain({ statusCode }: WireErrorFacts, context: Context): Promise<Finding> {
  const facts = { statusCode }
  if (statusCode === 403)
    return failed(
      'the service answers 403: it is reached, and forbids this',
      'ask its operator whether the key is blocked, or this machine’s address is not on its list',
      facts,
    )
  const reading = await context.clock()
  if (reading !== undefined && Math.abs(reading.offset) > CORRECTED)
    return notChecked('because of clock: the service rejects signatures of another day')
  const { host } = new URL(context.subject.endpoint)
  const advice = `check both for typing errors, and that they are for ${host}: testnet and mainnet have keys of their own`
  return reading === undefined
    ? failed('the service rejects them, or the clock: it answers 401', advice, facts)
    : failed(
        'the service rejects API_KEY or USER_SECRET: it answers 401, and not because of the clock',
        advice,
        facts,
      )
}

/** Checks which of the given feeds the credentials may read. */
export const feeds: Check = {
  name: 'feeds',
  needs: ['credentials'],
  exitCode: exitCodes.access,
  async run(context, signal) {
    const readable = await context.readableFeeds()
    const { feedIDs, unknownFeeds = [] } = context.subject
    const unknown = unknownFeeds.map(text => ({
      ...failed(text, 'sluice feeds lists the feeds that the key may read'),
      exitCode: exitCodes.argument,
    }))
    if (feedIDs.length + unknown.length > 0)
      return Promise.all([
        ...unknown,
        ...feedIDs.map(feedID => read(context, feedID, readable.includes(feedID), signal)),
      ])
    if (readable.length > 0)
      return [ok(`${readable.length} may be read; name some to have them tried`)]
    return [
      warning(
        'the service lists none for these credentials',
        'ask its operator which feeds the key is entitled to, and name them here',
      ),
    ]
  },
}

async function read(
  context: Context,
  feedID: string,
  isListed: boolean,
  signal: AbortSignal,
): Promise<Finding> {
  const known = findFeed(feedID)
  const name = known === undefined ? feedID : `${known.name} ${feedID}`
  const facts = { feedID, isListed }
  try {
    const report = await context.client().getLatestReport(feedID, { signal })
    const age = await context.ageOf(report)
    const unlisted = isListed ? '' : ', though the service does not list it'
    return ok(`${name} may be read${unlisted}; its last report is ${formatSeconds(age)} old`, {
      ...facts,
      ageMs: age,
    })
  } catch (thrown) {
    if (!isDenial(thrown) && !isNotFound(thrown)) throw thrown
    return known === undefined
      ? failed(
          `${name} is unknown to the service, or the key is not entitled to it: it says the same of both`,
          'check the id, and that it is of this network; then ask the service’s operator for the feed',
          facts,
        )
      : failed(
          `${name} may not be read: the key is not entitled to it, or it is of the other network`,
          'ask the service’s operator for the feed; mainnet and testnet have feeds of their own',
          facts,
        )
  }
}

/** How many requests the check measures. */
const REQUESTS = 5
/**
 * A median above this many milliseconds is a warning. Without a problem, requests from anywhere are
 * faster.
 */
const SLOW = 500

/**
 * Measures how long requests take. The requests run one after the other, so they share a connection
 * and stay below the limit of requests.
 */
export const latency: Check = {
  name: 'latency',
  needs: ['credentials'],
  exitCode: exitCodes.service,
  deadline: () => 60_000,
  async run(context, signal) {
    const times: number[] = []
    for (let request = 0; request < REQUESTS; request++) {
      const startedAt = performance.now()
      await context.client().listFeeds({ signal })
      times.push(Math.round(performance.now() - startedAt))
    }
    const medianMs = median(times)
    const maxMs = Math.max(...times)
    const text = `${REQUESTS} requests: median ${medianMs} ms, longest ${maxMs} ms`
    const facts = { medianMs, maxMs }
    if (medianMs <= SLOW) return [ok(text, facts)]
    return [
      warning(
        `REST is slow: ${text}`,
        'look at the way there: a distant region, a proxy, a busy line or machine',
        facts,
      ),
    ]
  },
}
