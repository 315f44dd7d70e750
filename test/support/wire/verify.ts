import {
  type DataEngine,
  type DataEngineOptions,
  type Forgery,
  type PublishedReport,
  type PublishOptions,
  startDataEngine,
} from '@sluice/engine'
import {
  type Client,
  type ContinuityOptions,
  createClient,
  type DecodedReport,
  type Gap,
  type ReportVerificationError,
  type SignerSet,
  type Stream,
  type StreamOptions,
  type UnverifiedReport,
  type VerificationFailure,
  type VerifyOptions,
} from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { closeAfterEach } from '../closing.js'
import { until } from '../waiting.js'

export const ethUsd: string = `0x0003${'e7'.repeat(30)}`

export const btcUsd: string = `0x0003${'b7'.repeat(30)}`

export const closers: (() => unknown)[] = closeAfterEach()

export async function start(options: DataEngineOptions = {}): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  return engine
}

export type Given = Partial<VerifyOptions>

export function clientOf(
  engine: DataEngine,
  given: Given = {},
  config: object = {},
): Client<DecodedReport> {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    retryDelay: 20,
    verify: { signers: engine.network, workers: 0, ...given },
    ...config,
  })
  closers.push(() => client.close())
  return client
}

/** A stream that verifies, and all that came of it. */
export async function open(
  engine: DataEngine,
  given: Given = {},
  config: { readonly continuity?: ContinuityOptions; readonly haMode?: boolean } = {},
  options: StreamOptions = {},
): Promise<{
  client: Client<DecodedReport>
  stream: Stream<DecodedReport>
  seen: {
    reports: Report[]
    refused: ReportVerificationError[]
    errors: Error[]
    conflicts: { first: Report; other: Report }[]
    gaps: Gap[]
    times: () => number[]
    reasons: () => VerificationFailure[]
  }
}> {
  const client = clientOf(engine, given, config)
  const stream = client.createStream(engine.feeds, { reconnectInterval: 50, ...options })
  const seen = {
    reports: [] as Report[],
    refused: [] as ReportVerificationError[],
    errors: [] as Error[],
    conflicts: [] as { first: Report; other: Report }[],
    gaps: [] as Gap[],
    times: () => seen.reports.map(({ observationsTimestamp }) => observationsTimestamp),
    reasons: () => seen.refused.map(({ reason }) => reason),
  }
  stream.on('report', report => void seen.reports.push(report))
  stream.on('error', error => {
    if (error.name === 'ReportVerificationError')
      seen.refused.push(error as ReportVerificationError)
    else seen.errors.push(error)
  })
  stream.on('conflict', conflict => void seen.conflicts.push(conflict))
  stream.on('gap', gap => void seen.gaps.push(gap))
  await stream.connect()
  await until(() => engine.connections >= engine.origins.length)
  return { client, stream, seen }
}

/** A source of signers that answers when it is let. */
export function slowSource(set: SignerSet): {
  source: (digest: string, _report: UnverifiedReport) => Promise<SignerSet>
  asked: string[]
  answer: () => void
} {
  let answer: () => void = () => undefined
  const answered = new Promise<void>(resolve => {
    answer = resolve
  })
  const asked: string[] = []
  const source = async (digest: string, _report: UnverifiedReport) => {
    asked.push(digest)
    await answered
    return set
  }
  return { source, asked, answer: () => answer() }
}

/** Each report of a feed ends a few seconds behind the one before. */
export function publisher(
  engine: DataEngine,
  feedID: string = ethUsd,
): (to?: PublishOptions | undefined) => PublishedReport {
  let time = Math.floor(Date.now() / 1000) - 200
  return function publish(to?: Parameters<DataEngine['publish']>[2]) {
    time++
    return engine.publish(feedID, { observationsTimestamp: time }, to)
  }
}

export const forgeries: [Forgery, string][] = [
  ['signature', 'unknown-signer|bad-signature'],
  ['signer', 'unknown-signer'],
  ['digest', 'unknown-digest'],
  ['few', 'too-few-signatures'],
  ['repeated', 'repeated-signer'],
  ['high-s', 'high-s'],
  ['v', 'bad-recovery-id'],
  ['context', 'unknown-signer|bad-signature'],
  ['value', 'unknown-signer|bad-signature'],
]
