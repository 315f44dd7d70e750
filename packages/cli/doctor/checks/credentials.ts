import type { AuthenticationError } from 'sluice/client'
import { isStreamsError } from 'sluice/core'
import { type Check, exitCodes, type Finding, failed, notChecked, ok } from '../check.js'
import type { Context } from '../context.js'

/** A client corrects a clock that is less wrong than this, in milliseconds. */
const CORRECTED = 86_400_000

/** Whether the API key and the secret are there, and accepted. */
export const credentials: Check = {
  name: 'credentials',
  needs: ['packages', 'tls'],
  exitCode: exitCodes.access,
  async run(context) {
    if (context.credentials === undefined)
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
      if (!isStreamsError(thrown, 'AUTHENTICATION')) throw thrown
      return [await explain(thrown, context)]
    }
  },
}

/** The service says the same of a wrong key, a wrong secret and a wrong clock: only the clock can be seen. */
async function explain(
  { statusCode }: AuthenticationError,
  { clock, endpoint }: Context,
): Promise<Finding> {
  const facts = { statusCode }
  if (statusCode === 403)
    return failed(
      'the service answers 403: it is reached, and forbids this',
      'ask its operator whether the key is blocked, or this machine’s address is not on its list',
      facts,
    )
  const reading = await clock()
  if (reading !== undefined && Math.abs(reading.offset) > CORRECTED)
    return notChecked('because of clock: the service rejects signatures of another day')
  const { host } = new URL(endpoint)
  const advice = `check both for typing errors, and that they are for ${host}: testnet and mainnet have keys of their own`
  return reading === undefined
    ? failed('the service rejects them, or the clock: it answers 401', advice, facts)
    : failed(
        'the service rejects API_KEY or USER_SECRET: it answers 401, and not because of the clock',
        advice,
        facts,
      )
}
