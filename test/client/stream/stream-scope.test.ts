import { describe, expect, test } from '@jest/globals'
import type { Sink } from '../../../client/contract/plugin.js'
import type { StreamScope } from '../../../client/contract/scope.js'
import { createStreamScope, type StreamScopeParts } from '../../../client/stream/stream-scope.js'
import { sleep } from '../../../core/async.js'
import type { Report } from '../../../report/report.js'

const report = { feedID: '0x0003', source: 'backfill' } as Report

/** A scope whose stages each pass a report on after some milliseconds. */
function open(top: Sink, delays: readonly number[]): { scope: StreamScope; errors: Error[] } {
  const errors: Error[] = []
  const { signal } = new AbortController()
  const scope = createStreamScope({
    log: {},
    life: { signal, defer: () => undefined },
    events: { emit: (_event: string, error: Error) => void errors.push(error) },
    sink: () => sink,
  } as unknown as StreamScopeParts)
  const sink = delays.reduce<Sink>(
    (next, ms) => each =>
      scope.waitUntil(
        sleep(ms, signal).then(() => next(each)),
        each,
      ),
    top,
  )
  return { scope, errors }
}

describe('inject', () => {
  test('settles when the last of several stages has passed the report on, each later', async () => {
    const passed: Report[] = []
    const { scope } = open(each => void passed.push(each), [5, 20, 10])
    await scope.inject(report)
    expect(passed).toEqual([report])
  })

  test('rejects with the error of a stage that is reached late', async () => {
    const { scope } = open(each => scope.waitUntil(Promise.reject(new Error('no')), each), [5, 5])
    await expect(scope.inject(report)).rejects.toThrow('no')
  })

  test('makes what a stage throws an error of the stream', async () => {
    const { scope, errors } = open(() => {
      throw new Error('bug')
    }, [])
    await scope.inject(report)
    expect(errors).toEqual([new Error('bug')])
  })

  test('work on a report that is not injected changes nothing', async () => {
    const { scope } = open(() => undefined, [])
    scope.waitUntil(Promise.reject(new Error('no')), { ...report } as Report)
    await scope.inject(report)
  })
})
