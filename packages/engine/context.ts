import { type Access, createAccess } from './access.js'
import { type Curve, loadCurve } from './curve.js'
import { createFaults, type Faults } from './faults.js'
import type { Feed } from './feeds.js'
import { createForge, type Forge } from './forge.js'
import { createLedger, type Ledger } from './ledger.js'
import { createNetwork } from './network.js'
import type { Settings } from './options.js'
import { createRequestLog, type RequestLog } from './request-log.js'

/** The shared state of the parts of an engine. */
export interface EngineContext {
  readonly settings: Settings
  readonly feeds: Map<string, Feed>
  readonly access: Access
  readonly ledger: Ledger
  readonly log: RequestLog
  /** Failures for all origins. */
  readonly faults: Faults
  readonly curve: Curve
  readonly forge: Forge
  /** The origins that answers list. */
  readonly listedOrigins: Set<string>
  /** The headers of every answer, in lower case. */
  readonly headers: () => Readonly<Record<string, string>>
}

/** The generation of signers that sign forged reports only. */
const FORGERS = -1

/** The context of an engine at the start. */
export async function createContext(
  settings: Settings,
  feeds: Map<string, Feed>,
): Promise<EngineContext> {
  const { seed, nodes, f, now, origins } = settings
  const curve = await loadCurve()
  const listedOrigins = new Set(origins)
  return {
    settings,
    feeds,
    access: createAccess(feeds, settings),
    ledger: createLedger(settings.retain, now),
    log: createRequestLog(),
    faults: createFaults(),
    curve,
    forge: createForge(createNetwork(curve, seed, nodes, f, FORGERS)),
    listedOrigins,
    headers: () => ({
      date: new Date(now()).toUTCString(),
      'x-cll-available-origins': `{${origins.filter(id => listedOrigins.has(id)).join(',')}}`,
    }),
  }
}
