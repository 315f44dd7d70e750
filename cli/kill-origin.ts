import { setTimeout as wait } from 'node:timers/promises'
import type { Stream } from '../client/stream/stream-api.js'
import type { DataEngine, EngineOrigin } from '../local/index.js'
import { green, red, yellow } from './view.js'

/** What is done to an origin while the other carries the stream. */
export interface Outage {
  readonly engine: DataEngine
  readonly stream: Pick<Stream, 'getMetrics'>
  /** Milliseconds before the origin is killed. */
  readonly afterMs: number
  /** Milliseconds it is away. */
  readonly awayMs: number
  /** Milliseconds it has to come back, once it is started again. */
  readonly withinMs: number
  readonly signal: AbortSignal
  readonly say: (text: string) => void
}

/**
 * Kills the first origin, starts it again, and waits until it is back: a new connection to it is open and brings reports.
 * Says so, or that it did not come back in time; ends at once when `signal` aborts.
 */
export async function killOrigin(outage: Outage): Promise<void> {
  const { engine, afterMs, awayMs, signal, say } = outage
  const [origin] = engine.origins
  if (origin === undefined) return
  try {
    await wait(afterMs, undefined, { signal })
    say(yellow(`origin ${origin.id} is killed`))
    await origin.kill()
    await wait(awayMs, undefined, { signal })
    say(yellow(`origin ${origin.id} is started again`))
    const published = engine.ledger().length
    await origin.restart()
    const isBack = await comesBack(outage, origin, published)
    say(
      isBack
        ? green(`origin ${origin.id} is back and delivers`)
        : red(`origin ${origin.id} is not back after ${outage.withinMs / 1000} seconds`),
    )
  } catch (thrown) {
    if (signal.aborted) return
    const why = thrown instanceof Error ? thrown.message : String(thrown)
    say(red(`origin ${origin.id} could not be killed and started again: ${why}`))
  }
}

async function comesBack(
  { engine, stream, withinMs, signal }: Outage,
  { id }: EngineOrigin,
  published: number,
): Promise<boolean> {
  const end = performance.now() + withinMs
  const delivers = (): boolean =>
    engine
      .ledger()
      .slice(published)
      .some(report => engine.deliveries(report).some(({ origin }) => origin === id))
  while (stream.getMetrics().activeConnections < engine.origins.length || !delivers()) {
    if (performance.now() > end) return false
    await wait(50, undefined, { signal })
  }
  return true
}
