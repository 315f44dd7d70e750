import { Refusal } from './answer.js'

/** Counts a request of a key at an endpoint. Throws a refusal with status 429 once there are too many. */
export type RateLimit = (apiKey: string, endpoint: string, now: number) => void

/** So many requests in any second, per key and endpoint. */
export function createRateLimit(perSecond: number): RateLimit {
  const recent = new Map<string, number[]>()

  return function count(apiKey, endpoint, now) {
    const name = `${apiKey} ${endpoint}`
    const times = (recent.get(name) ?? []).filter(time => Math.abs(now - time) < 1000)
    recent.set(name, times)
    if (times.length >= perSecond) {
      throw new Refusal(429, 'too many requests', 'rate limit', { 'retry-after': '1' })
    }
    times.push(now)
  }
}
