import { describe, expect, test } from '@jest/globals'
import { checkAll } from '../../../plugins/verify/request-stage.js'
import { createVerdicts } from '../../../plugins/verify/verdicts.js'
import type { Report } from '../../../report/report.js'
import { report } from '../../support/plugins/verify.js'

describe('the verdicts of a client', () => {
  test('calls a check off when the last who asked does not want to know any more', async () => {
    const calledOff: Report[] = []
    const settles = new Map<Report, (failure: undefined) => void>()
    const verdicts = createVerdicts({
      check(each, settled) {
        settles.set(each, settled)
        return () => void calledOff.push(each)
      },
      end: () => undefined,
    })
    const [one, two] = [report(1), report(2)]
    const controllers = [new AbortController(), new AbortController()] as const
    const [first] = controllers.map(({ signal }) => checkAll(verdicts, [one, two], signal))
    const heard: unknown[] = []
    void first?.then(() => heard.push('all'))
    verdicts.check(two, () => void heard.push(two))
    controllers[0].abort()
    expect(calledOff).toEqual([])
    controllers[1].abort()
    expect(calledOff).toEqual([one])
    settles.get(two)?.(undefined)
    await new Promise(setImmediate)
    expect(heard).toEqual([two])
    verdicts.check(one, () => void heard.push(one))
    settles.get(one)?.(undefined)
    expect(heard).toEqual([two, one])
  })
})
