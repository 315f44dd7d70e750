import { version } from 'node:process'
import type { TlsOptions } from 'node:tls'
import { expect } from '@jest/globals'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { root } from '@sluice/test-support/sources.js'
import { pems, startTLSFront } from '@sluice/test-support/wire/egress.js'
import type { Subject } from '../../../doctor/context.js'
import { type DoctorReport, doctor } from '../../../doctor/doctor.js'

export const closers: (() => unknown)[] = closeAfterEach()

/** A feed in milliseconds. */
export const feed = (index: number): string => `0x1003${index.toString(16).padStart(60, '0')}`

/** A service behind TLS, with two origins, in which nothing is wrong; a test plants what is. */
export async function startService(
  given: DataEngineOptions = {},
  tls: TlsOptions = {},
): Promise<{ readonly engine: DataEngine; readonly subject: Subject }> {
  const engine = await startDataEngine({
    feeds: [feed(1), feed(2)],
    origins: 2,
    intervalMs: 50,
    apiKey: 'key-of-the-doctors-test',
    userSecret: 'secret-of-the-doctors-test',
    ...given,
  })
  closers.push(() => engine.close())
  const front = await startTLSFront(Number(new URL(engine.endpoint).port), tls)
  closers.push(() => front.close())
  const { apiKey, userSecret } = engine
  const subject = subjectOf(`https://localhost:${front.port}`)
  return { engine, subject: { ...subject, credentials: { apiKey, userSecret } } }
}

/** A subject whose service is at a URL, without credentials. */
export function subjectOf(endpoint: string): Subject {
  return {
    endpoint,
    wsEndpoint: endpoint.replace('http', 'ws'),
    credentials: undefined,
    network: { tls: { ca: pems.ca } },
    feedIDs: [feed(1)],
    seconds: 0.4,
    log: undefined,
    env: {},
    nodeVersion: version.slice(1),
    folder: root,
  }
}

/** What the doctor says. */
export interface Diagnosis extends DoctorReport {
  /** All that it has written, as text. */
  readonly text: string
  /** The findings of a status, each as `check: text`. */
  readonly of: (status: DoctorReport['findings'][number]['status']) => readonly string[]
}

/** Has the doctor look at a subject; reads what it writes as JSON. */
export async function diagnose(subject: Subject): Promise<Diagnosis> {
  let text = ''
  const exitCode = await doctor(subject, new AbortController().signal, {
    json: true,
    colour: (_status, word) => word,
    write: more => {
      text += more
    },
  })
  const report = JSON.parse(text) as DoctorReport
  if (report.exitCode !== exitCode) throw new Error(`it returned ${exitCode}: ${text}`)
  return {
    ...report,
    text,
    of: status =>
      report.findings
        .filter(finding => finding.status === status)
        .map(({ check, text }) => `${check}: ${text}`),
  }
}

/** One fault has one failed line, which names it, and what depends on it is not checked. */
export function expectOne(
  diagnosis: Diagnosis,
  failure: RegExp,
  unchecked: readonly string[] = [],
): void {
  expect(diagnosis.of('failed')).toEqual([expect.stringMatching(failure)])
  const skipped = diagnosis.of('not checked').map(line => line.replace(/:.*/, ''))
  expect(skipped).toEqual(unchecked)
  const { advice } = diagnosis.findings.find(({ status }) => status === 'failed') ?? {}
  expect(advice).toMatch(/\w/)
}

/** What needs the service. */
export const SERVED: readonly string[] = [
  'credentials',
  'feeds',
  'retirement',
  'latency',
  'origins',
]
