import { describe, expect, test } from '@jest/globals'
import { type CurveLibrary, loadCurveLibrary } from '../../../plugins/verify/curve-libraries.js'
import { LoopRecovery, type Recovery, recoverSigners } from '../../../plugins/verify/recovery.js'
import { ThreadRecovery } from '../../../plugins/verify/thread-recovery.js'
import {
  addresses,
  type Making,
  makeReport,
  signers,
  word,
} from '../../support/report/signed-reports.js'
import { until } from '../../support/waiting.js'

const allowed = new Set(signers.signers)

describe('recovery stops at the first signature that does not count', () => {
  const cases: readonly (readonly [string, Making, string, number])[] = [
    ['by somebody else', { by: [9, 10, 11, 8, 0, 1] }, 'unknown-signer', 1],
    [
      'copied from another report',
      {
        by: [0, 1, 2, 3, 4, 5, 6],
        alter: each => ({ ...each, context: [word(1), word(2), word(3)] }),
      },
      'unknown-signer',
      1,
    ],
    ['by a signer once more', { by: [0, 1, 0, 1, 0, 1] }, 'repeated-signer', 3],
    [
      'with a v of 2',
      { alter: each => ({ ...each, vs: `0x02${each.vs.slice(4)}` }) },
      'bad-recovery-id',
      0,
    ],
  ]
  test.each(cases)('%s', async (_, making, reason, times) => {
    const { recover } = (await loadCurveLibrary('noble')) as CurveLibrary
    let recoveries = 0
    const library: Pick<CurveLibrary, 'recover'> = {
      recover(...args) {
        recoveries++
        return recover(...args)
      },
    }
    const { fullReport } = makeReport(making)
    expect(recoverSigners(fullReport, allowed, library)).toMatchObject({ reason })
    expect(recoveries).toBe(times)
  })
})

describe.each<readonly [string, () => Recovery]>([
  ['in the loop', () => new LoopRecovery('noble')],
  ['in threads', () => new ThreadRecovery({ curveLibrary: 'noble', workers: 1 })],
])('%s', (_, create) => {
  test('a cancelled report is skipped', async () => {
    const recovery = create()
    const { fullReport } = makeReport()
    const read: string[] = []
    const done: unknown[] = []
    let isWanted = true
    const add = (name: string, isNameWanted: () => boolean): void =>
      recovery.add({
        get fullReport() {
          read.push(name)
          return fullReport
        },
        addresses: allowed,
        isWanted: isNameWanted,
        done: recovered => void done.push(recovered),
      })
    for (let each = 0; each < 100; each++) add('abandoned', () => isWanted)
    add('live', () => true)
    isWanted = false
    await until(() => done.length > 0)
    recovery.end()
    expect(read).toEqual(['live'])
    expect(done).toEqual([addresses.slice(0, 3)])
  })
})
