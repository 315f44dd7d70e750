import { expect, test } from '@jest/globals'
import { createCounters, createTotals } from '../../client/metrics.js'
import { createOrigins } from '../../client/stream/origins.js'

const a = 'wss://host#001'
const b = 'wss://host#002'

test('what an origin has brought stays when a stream forgets it, and when it ends', () => {
  const totals = createTotals(() => [])
  const origins = createOrigins(totals.addOrigin)
  const end = totals.add(createCounters(), origins.all)
  const receivedNow = () =>
    Object.entries(totals.read().origins).map(([origin, { received }]) => [origin, received])
  origins.of(a).received = 3
  origins.of(b).received = 5
  const both = [
    [a, 3],
    [b, 5],
  ]
  expect(receivedNow()).toEqual(both)
  origins.keep([])
  expect(receivedNow()).toEqual(both)
  // It is back, and counts from zero.
  origins.of(a).received = 2
  expect(receivedNow()).toEqual([
    [a, 5],
    [b, 5],
  ])
  for (let times = 0; times < 2; times++) end()
  expect(receivedNow()).toEqual([
    [a, 5],
    [b, 5],
  ])
})

test('the counts of streams that have ended are counted once', () => {
  const totals = createTotals(() => [])
  const counters = createCounters()
  const end = totals.add(counters, new Map())
  counters.accepted = 7
  expect(totals.read().accepted).toBe(7)
  end()
  end()
  totals.add({ ...createCounters(), accepted: 1 }, new Map())
  expect(totals.read().accepted).toBe(8)
})

test('origins that come and go without end are not all remembered', () => {
  const totals = createTotals(() => [])
  const origins = createOrigins(totals.addOrigin)
  const end = totals.add(createCounters(), origins.all)
  for (let at = 0; at < 1000; at++) origins.of(`wss://host#${at}`).received = 1
  const before = totals.read().origins
  expect(Object.keys(before)).toHaveLength(257)
  expect(before._OTHER).toMatchObject({ received: 744 })
  origins.keep([])
  expect(totals.read().origins).toEqual(before)
  origins.of('wss://host#999').received = 2
  end()
  expect(totals.read().origins).toEqual({
    ...before,
    _OTHER: { ...before._OTHER, received: 746 },
  })
})
