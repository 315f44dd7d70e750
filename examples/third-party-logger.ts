// Two ways to log: pass an existing logger, or write a plugin that listens.

import { startDataEngine } from '@sluice/engine'
import { createClient, defaultPreset, LogLevel, type Plugin } from 'sluice'

const engine = await startDataEngine()
const { apiKey, userSecret, endpoint, wsEndpoint } = engine

// Anything with some of debug, info, warn and error will do: console, pino, winston, …
const quiet = createClient({
  apiKey,
  userSecret,
  endpoint,
  wsEndpoint,
  logging: { logger: console, logLevel: LogLevel.INFO },
})
await quiet.listFeeds()
await quiet.close()

// A logger as a plugin: it counts the lines of each level. A level without a listener costs
// nothing.
function tally(counts: Record<string, number>): Plugin {
  const count = (level: string) => (): void => {
    counts[level] = (counts[level] ?? 0) + 1
  }
  return {
    name: 'tally',
    setup: scope =>
      scope.listen({
        debug: count('debug'),
        info: count('info'),
        warn: count('warn'),
        error: count('error'),
      }),
  }
}

const counts: Record<string, number> = {}
const counted = createClient({
  endpoint,
  wsEndpoint,
  plugins: [tally(counts), ...defaultPreset({ apiKey, userSecret })],
})
engine.fail({ status: 503 })
await counted.listFeeds()
console.log(counts)

await counted.close()
await engine.close()
