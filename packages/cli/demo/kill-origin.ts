import { setTimeout as wait } from 'node:timers/promises'
import type { DataEngine, EngineOrigin } from '@sluice/engine'
import type { Stream } from 'sluice/client'
import { green, red, yellow } from '../output/colours.js'

/** The outage of one origin, while the other origin carries the stream. */
export interface Outage {
  readonly engine: DataEngine
  readonly stream: Pick<Stream, 'getMetrics'>
  /** Milliseconds until the origin is killed. */
  readonly afterMs: number
  /** Milliseconds from the kill to the restart. */
  readonly awayMs: number
  /** Milliseconds after the restart within which the origin must be back. */
  readonly withinMs: number
  readonly signal: AbortSignal
  readonly say: (text: string) => void
}

/**
 * Kills the first origin, restarts it, and waits until a new connection to it is open and delivers
 * reports. Prints whether the origin came back in time. Ends at once when `signal` aborts.
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
