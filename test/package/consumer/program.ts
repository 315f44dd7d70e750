// A program as a user writes it, compiled against the published declarations: here with no types but the compiler's own
// libraries and either those of the DOM or those of Node.

import {
  type Call,
  type Client,
  type Config,
  ConnectionStatus,
  createClient,
  DataStreamsError,
  type DecodedReport,
  decodeReport,
  decoders,
  defaultPreset,
  defineDecoder,
  endpoints,
  isStreamsError,
  LogLevel,
  type Plugin,
  type Report,
  type RetirementEvents,
  type Stream,
  type WebCrypto,
} from 'sluice'
import {
  createDecodeReport,
  createClient as createPlainClient,
  type Decoded,
  type Handler,
  type Layer,
  type Sink,
  VERSION,
} from 'sluice/client'
import type { ErrorOf } from 'sluice/core'
import {
  allDecoders,
  decoders as decodersOfEntry,
  MarketStatus,
  type V2,
  type V3,
  v2,
  v3,
  v4,
  v5,
  v6,
  v7,
  v8,
  v9,
  v10,
  v11,
  v12,
  v13,
  v14,
} from 'sluice/plugins/decoders'
import { generateAuthHeaders, hmacAuth } from 'sluice/plugins/hmac-auth'
import { type Logger, logging } from 'sluice/plugins/logging'
import { retry } from 'sluice/plugins/retry'
import { defaultPreset as presetOfEntry } from 'sluice/presets/default'
import { type PublicKey, parsePublicKey } from 'sluice/tdh2'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const holds = <Claim extends true>(claim: Claim): Claim => claim

/** Where to connect, and a feed of version 3. */
export interface Place {
  readonly endpoint: string
  readonly wsEndpoint: string
  readonly apiKey: string
  readonly userSecret: string
  readonly feedID: string
}

// Without a parameter, a report has the data of any decoder; with it, that of one.
export const versionOf = (report: Report): DecodedReport['version'] => report.decoded.version
export const midOf = ({ decoded }: Report<V3>): bigint => (decoded.bid + decoded.ask) / 2n
// @ts-expect-error: V3 has no such field
export const wrongOf = ({ decoded }: Report<V3>): unknown => decoded.midPrice

// Somebody else's decoder, its type inferred from its schema.
export const v42 = defineDecoder({
  version: 42,
  fields: { price: 'int192', halted: 'bool', count: 'uint32', name: 'string', at: 'uint64-twin' },
})
type V42 = ReturnType<(typeof v42)['decode']>
holds<Same<V42['version'], 'V42'>>(true)
holds<Same<V42['price'], bigint>>(true)
holds<Same<V42['halted'], boolean>>(true)
holds<Same<V42['count'], number>>(true)
holds<Same<V42['name'], string>>(true)
holds<Same<V42['at'], number>>(true)
holds<Same<V42['atRaw'], bigint>>(true)
holds<Same<V42['feedID'], string>>(true)
type PriceOnly = Decoded<42, { readonly price: 'int192' }>
const priceOf = (report: PriceOnly | V42): bigint => report.price
// @ts-expect-error: a field's type is one that Solidity has
const defineWrongly = () => defineDecoder({ version: 42, fields: { price: 'bigint' } })

/** An error of somebody else's plugin, with a code of its own. */
export class Overrun extends DataStreamsError {
  readonly calls: number

  constructor(calls: number) {
    super('too many calls', { code: 'OVERRUN' })
    this.calls = calls
  }
}
declare module 'sluice/core' {
  interface ErrorClasses {
    OVERRUN: Overrun
  }
}
export const callsOf = (thrown: unknown): number | undefined =>
  isStreamsError(thrown, 'OVERRUN') ? thrown.calls : undefined
holds<Same<ErrorOf<'OVERRUN'>, Overrun>>(true)

// Somebody else's plugins, one hook each.
export interface Seen {
  calls: number
  attempts: number
  reports: number
}

function watch(seen: Seen): Plugin {
  const calls: Layer = next =>
    async function countCall(call) {
      seen.calls++
      return next(call)
    }
  const attempts = (next: Handler): Handler =>
    async function countAttempt(call: Call) {
      seen.attempts++
      call.headers.set('x-attempt', String(seen.attempts))
      if (call.kind === 'stream')
        call.scope.log.debug?.(`connects for ${call.scope.feedIDs.length}`)
      return next(call)
    }
  return {
    name: 'watch',
    call: calls,
    attempt: attempts,
    report: (next: Sink, scope) =>
      function countReport(report) {
        seen.reports++
        scope.log.info?.(report.feedID, { observed: report.observationsTimestamp })
        next(report)
      },
  }
}

// Console is a logger, and so is what has some of its functions.
const loggers: readonly Logger[] = [console, { info: (message: string) => void message }]

export function whatFailed(error: unknown): string {
  // The code of an error of any part, whatever of the package is imported.
  if (isStreamsError(error, 'ALL_CONNECTIONS_FAILED')) return error.code
  if (isStreamsError(error, 'ENCLAVE')) return String(error.mayHaveBeenSent)
  return isStreamsError(error, 'TDH2') ? error.message : ''
}
export const publicKeyOf: (json: string) => PublicKey = parsePublicKey

// The platform's own WebCrypto can take the place of the default one.
const crypto: WebCrypto = globalThis.crypto

/** What a report says; narrowed by its version. */
export function describe(report: Report<DecodedReport>): string {
  // @ts-expect-error: not every version has a bid
  void report.decoded.bid
  const { decoded } = report
  switch (decoded.version) {
    case 'V2':
      holds<Same<typeof decoded, V2>>(true)
      return `${decoded.price}`
    case 'V8':
      return decoded.marketStatus === MarketStatus.OPEN ? 'open' : 'closed'
    default:
  }
  if (report.decoded.version === 'V3') {
    const bid: bigint = report.decoded.bid
    const ask: bigint = report.decoded.ask
    return `${bid} ${ask}`
  }
  return decoded.version
}

/** The default preset, through a stream that closes itself. */
export async function streamOne(place: Place): Promise<string> {
  const { feedID, ...access } = place
  const config: Config = {
    ...endpoints.testnet,
    ...access,
    timeout: 5000,
    logging: { logger: loggers[1], logLevel: LogLevel.WARN },
    connectionStatusCallback: (isConnected, host, origin) => void [isConnected, host, origin],
  }
  const client = createClient(config)
  holds<Same<typeof client, Client<DecodedReport, RetirementEvents>>>(true)
  const anyClient: Client<DecodedReport> = client
  void anyClient
  try {
    await using stream = client.createStream([feedID], { maxReconnectAttempts: 2 })
    holds<Same<typeof stream, Stream<DecodedReport, RetirementEvents>>>(true)
    stream.on('retiring', ({ daysLeft }) => void daysLeft.toFixed())
    // @ts-expect-error: no plugin of the stack emits it, whatever this program imports
    void (() => stream.on('market', () => undefined))
    const first = new Promise<Report<DecodedReport>>((resolve, reject) => {
      stream.on('report', resolve).on('error', reject)
      stream.on('status', status => {
        if (status.type === 'reconnecting') reject(status.error)
        // @ts-expect-error: only a reconnection has a delay
        void status.delayMs
      })
    })
    await stream.connect()
    const report = await first
    const [status] = Object.values(stream.getMetrics().originStatus)
    if (status !== ConnectionStatus.CONNECTED) throw new Error(`the stream is ${status}`)
    return describe(report)
  } finally {
    await client.close()
  }
}

/** A stack of one's own: the reports are of the versions given, and no others. */
export async function fetchOne(place: Place): Promise<Seen> {
  const { endpoint, wsEndpoint, apiKey, userSecret, feedID } = place
  const seen: Seen = { calls: 0, attempts: 0, reports: 0 }
  await using client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [
      watch(seen),
      logging({ logger: loggers[1] }),
      decoders(v3, v42),
      retry({ attempts: 2 }),
      hmacAuth({ apiKey, userSecret, crypto }),
    ],
  })
  const { decoded } = await client.getLatestReport(feedID)
  holds<Same<typeof decoded, V3 | V42>>(true)
  if (decoded.version === 'V42') throw new Error(`a report of version 42 at ${decoded.atRaw}`)
  holds<Same<typeof decoded, V3>>(true)
  const page = await client.getReportsPage(feedID, decoded.observationsTimestamp - 60, 2)
  const bulk = await client.getReportsBulk([feedID], page[0]?.observationsTimestamp ?? 0)
  if (bulk.missing.length > 0 || typeof page.nextStartTime !== 'number') throw new Error('lost')
  return seen
}

/** What goes wrong, as the guards tell it. */
export function explain(error: unknown): string {
  if (isStreamsError(error, 'DECODING')) return error.message
  if (error instanceof DataStreamsError) return error.code
  return String(error)
}

export const parts: readonly unknown[] = [
  VERSION,
  priceOf,
  defineWrongly,
  createPlainClient,
  decodeReport,
  createDecodeReport([v2, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14]),
  createDecodeReport(allDecoders),
  decodersOfEntry(v2),
  generateAuthHeaders,
  defaultPreset,
  presetOfEntry,
]
