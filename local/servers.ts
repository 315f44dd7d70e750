import type { Access } from './access.js'
import { createRateLimit } from './auth.js'
import type { Faults } from './faults.js'
import type { Forge } from './forge.js'
import { createFrontDoor } from './front-door.js'
import type { Ledger, PublishedReport } from './ledger.js'
import { createHTTPListener, type Listener } from './listener.js'
import type { Settings } from './options.js'
import { createOrigin, type Origin, type OriginParts } from './origin.js'
import type { RequestLog } from './request-log.js'
import { createEndpoints } from './rest.js'
import { createService } from './service.js'
import type { Frame } from './websocket-server.js'

/** The origins, and what listens in front of them. */
export interface Servers {
  readonly origins: readonly Origin[]
  /** The front door's, or that of a single origin. */
  readonly listener: Listener
  /** While on, upgrades that name a dead origin go to another one. */
  readonly reroute: (on: boolean) => void
  readonly stream: (report: PublishedReport) => void
  /** Adds up a number over the origins. */
  readonly sum: (count: (origin: Origin) => number) => number
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  readonly close: () => Promise<void>
}

/** The parts of servers. */
export interface ServersParts {
  readonly settings: Settings
  readonly access: Access
  readonly ledger: Ledger
  readonly log: RequestLog
  readonly faults: Faults
  readonly forge: Forge
}

function frameOf(report: PublishedReport): Frame {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  const envelope = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return { data: Buffer.from(JSON.stringify({ report: envelope })), feedID, report }
}

function originPartsOf(
  { settings, access, ledger, log, faults, forge }: ServersParts,
  listedOrigins: () => string[],
): Omit<OriginParts, 'id' | 'port'> {
  const { seed, now, rateLimit, maxBufferedBytes, compression } = settings
  let streams = 0
  return {
    seed,
    service: {
      access,
      endpoints: createEndpoints(access, ledger),
      log,
      rateLimit: rateLimit === undefined ? undefined : createRateLimit(rateLimit),
      now,
      headers: () => ({
        date: new Date(now()).toUTCString(),
        'x-cll-available-origins': `{${listedOrigins().join(',')}}`,
      }),
    },
    faults,
    streams: { maxBufferedBytes, compression, nextNumber: () => ++streams },
    onSent: (report, origin, stream) => ledger.addDelivery(report, { origin, stream, at: now() }),
    forged(report, how) {
      const frame = frameOf({ ...report, fullReport: forge(report.fullReport, how) })
      return { ...frame, report: undefined }
    },
  }
}

/** The servers of an engine, stopped. A single origin needs no front door. */
export function createServers(parts: ServersParts): Servers {
  const { port, origins: ids } = parts.settings
  const isSingle = ids.length === 1
  const originParts = originPartsOf(parts, () =>
    origins.filter(origin => origin.isAdvertised).map(({ id }) => id),
  )
  const origins = ids.map(id => createOrigin({ ...originParts, id, port: isSingle ? port : 0 }))
  const service = createService({ ...originParts.service, faults: parts.faults })
  const frontDoor = createFrontDoor(service, origins)
  const listener = isSingle
    ? (origins[0] as Origin).listener
    : createHTTPListener(port, frontDoor.handlers)

  return {
    origins,
    listener,
    reroute: frontDoor.reroute,
    stream(report) {
      const frame = frameOf(report)
      for (const origin of origins) origin.publish(frame, report)
    },
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
