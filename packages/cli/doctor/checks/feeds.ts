import { findFeed } from 'sluice'
import { isStreamsError } from 'sluice/core'
import { ageOf, formatSeconds } from '../age.js'
import { type Check, exitCodes, type Finding, failed, ok, warning } from '../check.js'
import type { Context } from '../context.js'

/** Which of the given feeds may be read. */
export const feeds: Check = {
  name: 'feeds',
  needs: ['credentials'],
  exitCode: exitCodes.access,
  async run(context, signal) {
    const readable = await context.readableFeeds()
    if (context.feedIDs.length > 0)
      return Promise.all(
        context.feedIDs.map(feedID => read(context, feedID, readable.includes(feedID), signal)),
      )
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
    const age = await ageOf(context, report)
    const unlisted = isListed ? '' : ', though the service does not list it'
    return ok(`${name} may be read${unlisted}; its last report is ${formatSeconds(age)} old`, {
      ...facts,
      ageMs: age,
    })
  } catch (thrown) {
    const isRefused =
      isStreamsError(thrown, 'AUTHENTICATION') ||
      (isStreamsError(thrown, 'API_STATUS') && thrown.statusCode === 404)
    if (!isRefused) throw thrown
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
