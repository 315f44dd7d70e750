import type { EngineContext } from './context.js'
import { createFrontDoor } from './front-door.js'
import { createHTTPListener, type Listener } from './listener.js'
import { createOrigin, type Origin } from './origin.js'

/** The origins, and what listens in front of them. */
export interface Servers {
  readonly origins: readonly Origin[]
  /** The front door's, or that of a single origin. */
  readonly listener: Listener
  /** While on, upgrades that name a dead origin go to another one. */
  readonly reroute: (on: boolean) => void
  readonly sum: (count: (origin: Origin) => number) => number
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  readonly close: () => Promise<void>
}

/** The servers of an engine, stopped. A single origin needs no front door. */
export function createServers(context: EngineContext): Servers {
  const { port, origins: ids } = context.settings
  const isSingle = ids.length === 1
  const origins = ids.map(id => createOrigin(context, id, isSingle ? port : 0))
  const frontDoor = createFrontDoor(context, origins)
  const listener = isSingle
    ? (origins[0] as Origin).listener
    : createHTTPListener(port, frontDoor.handlers)

  return {
    origins,
    listener,
    reroute: frontDoor.reroute,
    sum: count => origins.reduce((total, origin) => total + count(origin), 0),
    async start() {
      await Promise.all(origins.map(origin => origin.start()))
      if (!isSingle) await listener.open()
    },
    async stop() {
      await Promise.all([listener.close(), ...origins.map(origin => origin.stop())])
    },
    async close() {
      await Promise.all([listener.close(), ...origins.map(origin => origin.close())])
    },
  }
}
