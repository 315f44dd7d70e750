import type { Facts } from '../doctor/check.js'
import type { RecordVerdict } from './finding.js'

/** The version of the record's shape. */
export const RECORD_VERSION = 1

/** The record of a run, as JSON. It has no secret: no key, no signature, no user id. */
export interface CertifyRecord {
  readonly recordVersion: typeof RECORD_VERSION
  /** When the run began and ended: ISO 8601, by this machine's clock. */
  readonly startedAt: string
  readonly endedAt: string
  /** False if it was stopped before it was done. */
  readonly complete: boolean
  readonly service: {
    /** `mainnet`, `testnet`, or `other`. */
    readonly network: string
    readonly restHost: string
    readonly streamHost: string
  }
  readonly tool: { readonly sluice: string; readonly node: string }
  readonly settings: {
    readonly forMs: number
    readonly requestsPerSecond: number
    readonly mostRequests: number
    readonly verified: boolean
  }
  readonly requests: {
    readonly sent: number
    /** How many answers had each status. */
    readonly statuses: Readonly<Record<string, number>>
  }
  readonly feeds: readonly string[]
  readonly exitCode: number
  readonly counts: Readonly<Record<RecordVerdict, number>>
  readonly checks: readonly RecordedCheck[]
}

/** A check in a record. */
export interface RecordedCheck {
  readonly id: string
  readonly title: string
  readonly documented: string
  readonly source: string
  readonly verdict: RecordVerdict
  readonly seen: readonly {
    readonly verdict: RecordVerdict
    readonly text: string
    readonly facts?: Facts
  }[]
}

/** Formats a record as a page. */
export function formatRecord(record: CertifyRecord): string {
  const { service, settings, requests, counts, checks, tool, feeds } = record
  const head = [
    `# ${service.restHost}, ${record.startedAt.slice(0, 16).replace('T', ' ')} UTC`,
    '',
    record.complete
      ? `It ran for ${seconds(record)} s.`
      : `**Partial: it was stopped after ${seconds(record)} s.** Checks without a result are not tested.`,
    '',
    `- Service: ${service.network}, REST at ${service.restHost}, streams at ${service.streamHost}`,
    `- By sluice ${tool.sluice} on Node.js ${tool.node}`,
    `- ${requests.sent} of at most ${settings.mostRequests} requests and upgrades, at most ${settings.requestsPerSecond} in a second`,
    `- Answers: ${listOf(requests.statuses)}`,
    `- Signatures of reports: ${settings.verified ? 'verified' : 'not verified, as no signers were given'}`,
    `- Feeds: ${feeds.map(feed => `\`${feed}\``).join(', ') || 'none'}`,
    `- Checks: ${listOf(counts)}`,
    '',
  ]
  const deviations = checks.filter(({ verdict }) => verdict === 'deviation')
  const found = deviations.flatMap(({ id, title, documented, source, seen }) => [
    `### ${id}: ${inText(title)}`,
    '',
    `Documented (${inText(source)}): ${inText(documented)}.`,
    '',
    ...seen.map(({ verdict, text }) => `- ${verdict}: ${inText(text)}`),
    '',
  ])
  const rows = checks.map(({ id, title, documented, source, verdict, seen }) =>
    row([`\`${id}\``, title, verdict, seen.map(({ text }) => text).join('; '), documented, source]),
  )
  return [
    ...head,
    ...(found.length > 0 ? ['## Deviations', '', ...found] : []),
    '## Checks',
    '',
    row(['id', 'title', 'verdict', 'seen', 'documented', 'source']),
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n')
}

/** The name of a record's files, without their ending. */
export function recordName({ startedAt, service }: CertifyRecord): string {
  const time = startedAt.slice(0, 19).replace(/[-:]/g, '')
  return `certify-${service.network}-${time}Z`
}

function seconds({ startedAt, endedAt }: CertifyRecord): number {
  return Math.round((Date.parse(endedAt) - Date.parse(startedAt)) / 1000)
}

function listOf(counts: Readonly<Record<string, number>>): string {
  const found = Object.entries(counts).filter(([, number]) => number > 0)
  return found.map(([name, number]) => `${name}: ${number}`).join(', ') || 'none'
}

/** A text from the service must not become a link, HTML or a column. */
function inText(text: string): string {
  return text.replace(/[\\`*_[\]<>|#]/g, character => `\\${character}`)
}

function row(cells: readonly string[]): string {
  const [id = '', ...rest] = cells
  return `| ${[id, ...rest.map(inText)].join(' | ')} |`
}
