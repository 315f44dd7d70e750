import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/plugin.js'
import type { RequestScope } from '../../../client/scope.js'
import { ReportVerificationError, verify } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { bad, report, type Settled, signers } from '../../support/plugins/verify.js'

/** verify in a request's stack, and what came of it. */
function request() {
  const checks = new Map<Report, Settled>()
  const delivered: Report[] = []
  const failures: Error[] = []
  const waits: Promise<unknown>[] = []
  const scope = {
    kind: 'request',
    signal: new AbortController().signal,
    verifier: { check: (each: Report, settled: Settled) => void checks.set(each, settled) },
    wait: (work: Promise<unknown>) => void waits.push(work),
    fail: (error: Error) => void failures.push(error),
  } as unknown as RequestScope
  const sink = verify({ signers }).report?.(each => void delivered.push(each), scope) as Sink
  function settle(each: Report, reason?: ReportVerificationError['reason']): void {
    checks.get(each)?.(reason && new ReportVerificationError('refused', { reason }), each)
  }
  return { delivered, failures, sink, settle, waits }
}

describe('verify in the stack of a request', () => {
  test('passes nothing on unverified, even if a plugin below is late with it', async () => {
    const { delivered, failures, sink, settle, waits } = request()
    const [one, two, late] = [report(1), report(2), report(3)]
    sink(one)
    sink(two)
    await undefined
    await undefined
    sink(late)
    settle(two)
    settle(one)
    await waits[0]
    expect(delivered).toEqual([one, two])
    settle(late, bad)
    await waits[1]
    expect(delivered).toEqual([one, two])
    expect(failures).toHaveLength(1)
  })
})
