import { type DataEngine, startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { pause, until } from '@sluice/test-support/waiting.js'

/** Fifty feeds that publish ten reports a second each. */
export const killedFeeds: readonly string[] = Array.from(
  { length: 50 },
  (_, index) => `0x1003${'c5'.repeat(28)}${index.toString(16).padStart(4, '0')}`,
)

/** A row of a store: the key of a report, and its price as the exact integer that was signed. */
export interface KeyedRow {
  readonly feedID: string
  readonly observationsTimestamp: number
  readonly fullReport: string
}

export interface KillOptions {
  /** What `--to` of the command names. */
  readonly to: string
  readonly kills: number
  /** Reads all rows with the store's own SQL, while no sink runs. */
  readonly rows: () => Promise<readonly KeyedRow[]>
  /** Does harm of its own in round `kill`, such as killing the server. */
  readonly harm?: (kill: number) => Promise<void>
  readonly env?: Readonly<Record<string, string>>
}

export interface Killed {
  readonly published: readonly KeyedRow[]
  readonly stored: readonly KeyedRow[]
  /** The rows whose key stands twice. */
  readonly doubled: number
  readonly missing: number
  readonly strange: number
}

/**
 * Runs `sluice sink` on 500 reports a second, kills it again and again at random moments, lets it
 * store the rest, and compares the store with what the engine has published.
 */
export async function killSinks(options: KillOptions): Promise<Killed> {
  const engine = await startDataEngine({ feeds: killedFeeds, intervalMs: 100, history: 100 })
  const begin = Date.now()
  const isCounted = (row: KeyedRow): boolean => row.observationsTimestamp >= begin
  try {
    for (let kill = 0; kill < options.kills; kill++) {
      const sink = start(engine, options)
      // At any moment: while it starts, while it fetches what it missed, and while it writes.
      if (kill % 3 !== 2) await connected(sink)
      await pause(100 + Math.random() * 1500)
      await options.harm?.(kill)
      sink.child.kill('SIGKILL')
      await sink.ended
    }
    engine.pause()
    const published = engine.ledger().filter(isCounted)
    let stored: readonly KeyedRow[] = []
    // The service allows ten requests a second, so fifty feeds take five seconds, and a range in
    // which the service may still store reports is asked for again.
    let before = -1
    for (let ms = 10_000; stored.length < published.length && stored.length > before; ms = 20_000) {
      before = stored.length
      const last = start(engine, options)
      await connected(last)
      await pause(ms)
      last.child.kill('SIGTERM')
      await last.ended
      stored = (await options.rows()).filter(isCounted)
    }
    const keys = new Map(published.map(row => [keyOf(row), row.fullReport]))
    const seen = new Set(stored.map(keyOf))
    return {
      published,
      stored,
      doubled: stored.length - seen.size,
      missing: [...keys.keys()].filter(key => !seen.has(key)).length,
      strange: stored.filter(row => keys.get(keyOf(row)) !== row.fullReport).length,
    }
  } finally {
    await engine.close()
  }
}

async function connected({ output, child }: ReturnType<typeof start>): Promise<void> {
  await until(
    () => /is connected/.test(output.err) || child.exitCode !== null || child.signalCode !== null,
  )
  if (child.exitCode !== null || child.signalCode !== null)
    throw new Error(`the command has ended: ${output.err}`)
}

function start(engine: DataEngine, { to, env }: KillOptions) {
  const args = ['sink', killedFeeds.join(','), '--to', to, '--from', '5s', '--flush', '200']
  return startCommand([...args, '--ha'], {
    env: {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
      ...env,
    },
  })
}

function keyOf({ feedID, observationsTimestamp: time }: KeyedRow): string {
  return `${feedID}:${time}`
}
