import { setTimeout as wait } from 'node:timers/promises'
import { type DataEngine, type EngineOrigin, type FeedSpec, startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import { parsePrice } from 'sluice/report'

/** The first price of each feed, in dollars. */
const prices: Readonly<Record<keyof typeof knownFeeds.mainnet, string>> = {
  'BTC/USD': '104250',
  'ETH/USD': '3851.42',
  'SOL/USD': '190.75',
  'XRP/USD': '2.48',
  'BNB/USD': '892.1',
  'DOGE/USD': '0.1873',
  'ADA/USD': '0.6421',
  'TRX/USD': '0.2944',
  'LINK/USD': '18.06',
  'AVAX/USD': '21.37',
  'SUI/USD': '2.315',
  'LTC/USD': '97.84',
  'DOT/USD': '3.127',
  'UNI/USD': '7.441',
  'AAVE/USD': '203.6',
  'ARB/USD': '0.3018',
  'OP/USD': '0.4426',
  'NEAR/USD': '2.716',
  'TON/USD': '2.093',
  'BCH/USD': '511.3',
  'USDC/USD': '0.99991',
  'USDT/USD': '0.99958',
  'DAI/USD': '0.99987',
}
/**
 * The feed that this module publishes itself, every two seconds, so that it can leave out a report.
 */
const QUIET: keyof typeof prices = 'BCH/USD'
const QUIET_INTERVAL = 2000

/** A local engine that runs until it is closed, and has a fault from time to time. */
export interface DemoEngine {
  readonly engine: DataEngine
  close(): Promise<void>
}

/** Starts an engine with four origins, and a sequence of faults that repeats every minute. */
export async function startDemoEngine(): Promise<DemoEngine> {
  const engine = await startDataEngine({
    feeds: demoFeeds(),
    origins: 4,
    retain: 600,
    keepAlive: true,
  })
  const delays = setInterval(() => varyDelays(engine), 500)
  const life = new AbortController()
  const quiet = publishQuiet(engine)
  const faults = repeatFaults(engine, quiet, life.signal).catch(error => {
    if (!life.signal.aborted) throw error
  })
  return {
    engine,
    async close() {
      life.abort()
      clearInterval(delays)
      quiet.stop()
      await faults
      await engine.close()
    },
  }
}

function demoFeeds(): FeedSpec[] {
  return Object.entries(knownFeeds.mainnet).map(([name, { feedID, decimals }]) => {
    const price = parsePrice(prices[name as keyof typeof prices], decimals)
    return { feedID, fields: { price }, ...(name === QUIET ? { intervalMs: 0 } : {}) }
  })
}

/** The longest delay of each origin, in milliseconds. The last origin is slow. */
const DELAYS = [6, 7, 9, 40]

/** Varies the delays, so that a different origin is first from time to time. */
function varyDelays({ origins }: DataEngine): void {
  for (const [index, origin] of origins.entries())
    origin.delay(Math.round(Math.random() * (DELAYS[index] as number)))
}

/** Publishes the feed that may go quiet, or lose a report. */
function publishQuiet(engine: DataEngine) {
  const { feedID } = knownFeeds.mainnet[QUIET]
  let isPaused = false
  const timer = setInterval(() => {
    if (!isPaused) engine.publish(feedID)
  }, QUIET_INTERVAL)
  return {
    pause(on: boolean): void {
      isPaused = on
    },
    /** Publishes a report that is lost: neither the streams nor REST deliver it. */
    lose: () => void engine.publish(feedID, {}, { streamed: false, stored: false }),
    stop: () => clearInterval(timer),
  }
}

async function repeatFaults(
  { origins }: DataEngine,
  quiet: ReturnType<typeof publishQuiet>,
  signal: AbortSignal,
): Promise<void> {
  const pause = (seconds: number): Promise<void> => wait(seconds * 1000, undefined, { signal })
  const [first, second, third] = origins as readonly [EngineOrigin, EngineOrigin, EngineOrigin]
  while (!signal.aborted) {
    await pause(15)
    await third.kill()
    await pause(6)
    await third.restart()
    await pause(8)
    quiet.lose()
    await pause(6)
    second.forge('value', 0.1)
    await pause(1)
    second.forge(undefined)
    await pause(6)
    first.corrupt(0.1)
    await pause(1)
    first.corrupt(0)
    await pause(5)
    quiet.pause(true)
    await pause(14)
    quiet.pause(false)
  }
}
