import { type Check, exitCodes, ok, warning } from '../check.js'
import { median } from '../median.js'

const REQUESTS = 5
/** Milliseconds that a request takes where nothing is wrong, from anywhere. */
const SLOW = 500

/** How long requests take, one after the other: the connection is open, and the limit of requests is not reached. */
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
