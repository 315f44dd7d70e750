import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import type { RequestScope } from '../../../client/contract/scope.js'
import { ReportVerificationError, verify } from '../../../index.js'
import type { Report } from '../../../report/report.js'
import { bad, report, type Settled, services, signers } from '../../support/plugins/verify.js'

/** verify in a request's stack, and its result. */
function request() {
  const checks = new Map<Report, Settled>()
  const delivered: Report[] = []
  const waits: Promise<unknown>[] = []
  const cancelled: Report[] = []
  const plugin = verify({ signers })
  const scope = {
    kind: 'request',
    signal: new AbortController().signal,
    client: services(plugin, ['verify'], {
      check(each, settled) {
        checks.set(each, settled)
        return () => void cancelled.push(each)
      },
    }),
    waitUntil: (work: Promise<unknown>) => void waits.push(work.catch(error => error)),
  } as unknown as RequestScope
  const sink = plugin.report?.(each => void delivered.push(each), scope) as Sink
  function settle(each: Report, reason?: ReportVerificationError['reason']): void {
    checks.get(each)?.(reason && new ReportVerificationError('refused', { reason }), each)
  }
  return { cancelled, delivered, sink, settle, waits }
}

describe('verify in the stack of a request', () => {
  test('passes on no unverified report, even if a plugin below is late with it', async () => {
    const { delivered, sink, settle, waits } = request()
    const [one, two, late] = [report(1), report(2), report(3)]
    sink(one)
    sink(two)
    await undefined
    await undefined
    sink(late)
    settle(two)
    await new Promise(setImmediate)
    expect(delivered).toEqual([])
    settle(one)
    await waits[0]
    expect(delivered).toEqual([one, two])
    settle(late, bad)
    expect(await waits[1]).toMatchObject({ reason: bad })
    expect(delivered).toEqual([one, two])
  })

  test('rejects with the first failure, passes nothing on, and cancels the other checks', async () => {
    const { cancelled, delivered, sink, settle, waits } = request()
    const reports = [report(1), report(2), report(3)]
    for (const each of reports) sink(each)
    await undefined
    await undefined
    settle(reports[0] as Report)
    settle(reports[1] as Report, bad)
    expect(await waits[0]).toMatchObject({ reason: bad, isRetryable: false })
    expect(cancelled).toContain(reports[2])
    expect(delivered).toEqual([])
  })
})
