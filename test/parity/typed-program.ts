// A program written for the types of the official SDK, which stands behind this import as well as this library does.
import {
  APIError,
  type Config,
  ConnectionStatus,
  createClient,
  type DataStreamsClient,
  DataStreamsError,
  DEFAULT_CONFIG,
  type DecodedReport,
  decodeReport,
  formatReport,
  getReportVersion,
  type Logger,
  type LoggingConfig,
  LogLevel,
  type MetricsSnapshot,
  type Report,
  Stream,
  type StreamOptions,
} from 'sluice'

// A configuration is put together step by step.
export function configure(env: Record<string, string | undefined>): Config {
  const config: Config = { apiKey: '', userSecret: '', endpoint: '', wsEndpoint: '' }
  config.apiKey = env.API_KEY ?? ''
  config.endpoint = DEFAULT_CONFIG.endpoint ?? ''
  config.haMode = env.HA === 'true'
  config.timeout = 5000
  const logging: LoggingConfig = { logger: console }
  logging.logLevel = LogLevel[(env.LOG_LEVEL ?? 'INFO') as keyof typeof LogLevel]
  logging.enableConnectionDebug = false
  config.logging = logging
  config.connectionStatusCallback = (isConnected, host, origin) =>
    console.log(isConnected, host, new URL(origin).hash)
  return config
}

// Enums as types, and read in reverse.
export const names: (string | undefined)[] = [LogLevel[0], LogLevel[LogLevel.ERROR]]
export const quiet: LogLevel.ERROR = LogLevel.ERROR
export const level: LogLevel = LogLevel.WARN
const icons: Record<ConnectionStatus, string> = {
  [ConnectionStatus.CONNECTED]: 'up',
  [ConnectionStatus.CONNECTING]: '…',
  [ConnectionStatus.RECONNECTING]: '…',
  [ConnectionStatus.DISCONNECTED]: 'down',
  [ConnectionStatus.FAILED]: 'down',
}
export type Up = ConnectionStatus.CONNECTED
export const up: Up = ConnectionStatus.CONNECTED

// A report made by hand, and functions that take one.
export const handMade: Report = {
  feedID: `0x0003${'ab'.repeat(30)}`,
  fullReport: '0x',
  validFromTimestamp: 1,
  observationsTimestamp: 1,
}
export function describe(report: Report): string {
  const decoded = decodeReport(report.fullReport, report.feedID)
  const combined: DecodedReport = {
    ...decoded,
    feedID: report.feedID,
    validFromTimestamp: report.validFromTimestamp,
    observationsTimestamp: report.observationsTimestamp,
  }
  return formatReport(combined, getReportVersion(report.feedID))
}

// A client that is none.
export const mock: DataStreamsClient = {
  listFeeds: async () => [],
  getLatestReport: async () => handMade,
  getReportByTimestamp: async () => handMade,
  getReportsPage: async () => [handMade],
  getReportsBulk: async (feedIds: string[]) => feedIds.map(feedID => ({ ...handMade, feedID })),
  createStream: (feedIds, options) => createClient(configure({})).createStream(feedIds, options),
}
export class Fake implements Pick<DataStreamsClient, 'getReportsBulk'> {
  async getReportsBulk(): Promise<Report[]> {
    return [handMade]
  }
}

export async function run(client: DataStreamsClient): Promise<void> {
  const options: StreamOptions = {}
  options.maxReconnectAttempts = 3
  const stream = client.createStream(['0x0003'], options)
  stream.on('report', report => console.log(describe(report)))
  stream.on('error', (error: Error) => console.log(error.message))
  stream.on('disconnected', () => undefined)
  stream.on('reconnecting', (info: { attempt: number; delayMs: number; origin?: string }) =>
    console.log(info.attempt),
  )
  await stream.connect()
  const metrics: MetricsSnapshot = stream.getMetrics()
  for (const [origin, status] of Object.entries(metrics.originStatus))
    console.log(new URL(origin).host, icons[status])
  console.log(stream.getOrigins().length, stream.getConnectionType())
  await stream.close()
}

// What an emitter has.
export async function listen(logger: Logger): Promise<number> {
  const stream: Stream = new Stream(configure({}), ['0x0003'], { reconnectInterval: 500 })
  const onReport = (report: Report): void => logger.info?.(report.feedID)
  stream.addListener('report', onReport).once('report', onReport)
  stream.removeListener('report', onReport)
  stream.on('connection-lost', connection => console.log(connection.origin))
  stream.on('connection-restored', () => undefined)
  stream.on('all-connections-lost', () => undefined)
  stream.emit('report', handMade)
  stream.removeAllListeners('report').removeAllListeners()
  for (const { id, host, state } of stream.getConnectionDetails()) console.log(id, host, state)
  console.log(Object.values(stream.getConnectionStates()), stream instanceof Stream)
  return stream.listenerCount('report')
}

export function explain(error: unknown): string {
  if (error instanceof APIError) return String(error.statusCode)
  return error instanceof DataStreamsError ? error.name : 'something else'
}

run(createClient(configure(process.env))).catch(explain)
