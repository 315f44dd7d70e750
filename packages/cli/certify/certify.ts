import { setMaxListeners } from 'node:events'
import { VERSION } from 'sluice/client'
import { createLifetime } from 'sluice/core'
import { given } from '../command.js'
import { type Outcome, runChecks } from '../doctor/check.js'
import { createHider } from '../doctor/doctor.js'
import { escapeControls } from '../output/feeds.js'
import type { CertifyCheck } from './check.js'
import { access, clock, signatureForms, timeTolerance } from './checks/access.js'
import {
  badSignature,
  errorBodies,
  malformedArgument,
  malformedHeader,
  missingArgument,
  missingHeader,
  streamRefusals,
  unknownFeed,
  untested,
  wrongKey,
} from './checks/refusals.js'
import {
  duplicates,
  envelopes,
  expiries,
  schemas,
  signatures,
  signingOrder,
  tiles,
  windows,
} from './checks/reports.js'
import {
  atTime,
  bulk,
  bulkPartial,
  discovery,
  feeds,
  gaps,
  latency,
  latest,
  latestNewest,
  noReport,
  page,
} from './checks/rest.js'
import {
  closes,
  messages,
  originList,
  origins,
  pongs,
  reconnection,
  secondVersion,
  sessions,
  stream,
  streamFeeds,
} from './checks/streams.js'
import { CertifyContext, type CertifySubject } from './context.js'
import { type RecordVerdict, verdictOf, verdictOn } from './finding.js'
import { type CertifyRecord, RECORD_VERSION, type RecordedCheck } from './record.js'

/** The checks that ask the service. The quick ones come first. */
const asking: readonly CertifyCheck[] = [
  ...[access, clock, signatureForms, timeTolerance],
  ...[feeds, latest, atTime, page, bulk, bulkPartial, noReport, discovery],
  ...[badSignature, wrongKey, missingHeader, malformedHeader],
  ...[missingArgument, malformedArgument, unknownFeed, errorBodies],
  ...[streamRefusals, secondVersion, originList],
  // These take as long as the streams are watched.
  ...[latestNewest, stream, messages, streamFeeds, pongs, closes, sessions],
  ...[origins, reconnection, gaps, latency],
]
/** The checks of all reports that have come. They run when the others are done. */
const reading: readonly CertifyCheck[] = [
  ...[envelopes, schemas, windows, tiles, signingOrder, expiries, duplicates, signatures],
  untested,
]

/** All checks, in the order of the record. */
export const certifyChecks: readonly CertifyCheck[] = [...asking, ...reading]

/** Requests and upgrades that are sent once more, after an error or an answer such as 429. */
const REPEATED = 20

/** The most requests and upgrades of a run. */
export const mostRequests: number =
  certifyChecks.reduce((sum, { requests }) => sum + requests, 0) + REPEATED

/** Milliseconds that the checks have to end, after the user has stopped the command. */
const GRACE = 5000

/** Compares a service with its documentation, and returns the record. */
export async function certify(
  subject: CertifySubject,
  signal: AbortSignal,
  show: (check: RecordedCheck) => void = () => undefined,
): Promise<CertifyRecord> {
  const startedAt = new Date().toISOString()
  const life = createLifetime(signal)
  // Requests that wait for their turn listen as well, and each check has some.
  setMaxListeners(0, life.signal)
  const context = new CertifyContext(subject, mostRequests, life.signal)
  const giveUp = (): void => void setTimeout(() => context.close(), GRACE).unref()
  life.onEnd(giveUp)
  const hider = createHider({ ...subject, network: subject.egress })
  const hide = (text: string): string => escapeControls(hider(text)).replace(DIGITS, '[digits]')
  const checks: RecordedCheck[] = []
  let exitCode = 0
  const note = ({ check, findings }: Outcome<CertifyCheck>): void => {
    const recorded = recordOf(check, findings, hide)
    checks.push(recorded)
    const own = findings.find(finding => finding.exitCode !== undefined)?.exitCode
    exitCode ||= own ?? (recorded.verdict === 'deviation' ? check.exitCode : 0)
    show(recorded)
  }
  try {
    await runChecks(asking, context, note)
    await runChecks(reading, context, note)
  } finally {
    context.close()
    life.end()
  }
  const { probe } = context
  const { endpoint, wsEndpoint, network, forMs, rate, signers } = subject
  return {
    recordVersion: RECORD_VERSION,
    startedAt,
    endedAt: new Date().toISOString(),
    complete: !signal.aborted,
    service: {
      network: network ?? 'other',
      restHost: new URL(endpoint).host,
      streamHost: new URL(wsEndpoint).host,
    },
    tool: { sluice: VERSION, node: process.versions.node },
    settings: {
      forMs,
      requestsPerSecond: rate,
      mostRequests,
      verified: signers !== undefined,
    },
    requests: { sent: probe.sent, statuses: Object.fromEntries(probe.statuses) },
    feeds: context.feedIDs,
    exitCode,
    counts: countVerdicts(checks),
    checks,
  }
}

/** Digits that may be a signature. A feed id begins with 0x, and an address is shorter. */
const DIGITS = /(?<![0-9a-fx])[0-9a-f]{41,}/gi

function recordOf(
  { name, title, documented, source }: CertifyCheck,
  findings: Outcome['findings'],
  hide: (text: string) => string,
): RecordedCheck {
  const seen = findings.map(finding => ({
    verdict: verdictOf(finding),
    text: hide(finding.text),
    ...given({ facts: finding.facts }),
  }))
  return { id: name, title, documented, source, verdict: verdictOn(findings), seen }
}

function countVerdicts(checks: readonly RecordedCheck[]): Readonly<Record<RecordVerdict, number>> {
  const count = (sought: RecordVerdict): number =>
    checks.filter(({ verdict }) => verdict === sought).length
  return {
    pass: count('pass'),
    deviation: count('deviation'),
    noted: count('noted'),
    'not tested': count('not tested'),
  }
}
