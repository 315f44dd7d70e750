import { describe, expect, test } from '@jest/globals'
import { checkAll } from '../../../plugins/verify/request-stage.js'
import { createVerdicts } from '../../../plugins/verify/verdicts.js'
import type { Report } from '../../../report/report.js'
import { report } from '../../support/plugins/verify.js'

describe('the verdicts of a client', () => {
  test('cancels a check when all its callers have cancelled it', async () => {
    const cancelled: Report[] = []
    const settles = new Map<Report, (failure: undefined) => void>()
    const verdicts = createVerdicts({
      check(each, settled) {
        settles.set(each, settled)
        return () => void cancelled.push(each)
      },
      end: () => undefined,
    })
    const [one, two] = [report(1), report(2)]
    const controllers = [new AbortController(), new AbortController()] as const
    const [first] = controllers.map(({ signal }) => checkAll(verdicts, [one, two], signal))
    const settled: unknown[] = []
    void first?.then(() => settled.push('all'))
    verdicts.check(two, () => void settled.push(two))
    controllers[0].abort()
    expect(cancelled).toEqual([])
    controllers[1].abort()
    expect(cancelled).toEqual([one])
    settles.get(two)?.(undefined)
    await new Promise(setImmediate)
    expect(settled).toEqual([two])
    verdicts.check(one, () => void settled.push(one))
    settles.get(one)?.(undefined)
    expect(settled).toEqual([two, one])
  })
})
