import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { Probe } from '../../certify/probe.js'

/** Milliseconds that the clocks have been moved on. */
let later = 0
beforeEach(() => {
  later = 0
  for (const clock of [Date, performance]) {
    const now = clock.now.bind(clock)
    jest.spyOn(clock, 'now').mockImplementation(() => now() + later)
  }
})
afterEach(() => void jest.restoreAllMocks())

/** A probe whose requests arrive after so many milliseconds, one after the other, and the times at which they were signed. */
function probeThatTakes(delays: readonly number[]): { probe: Probe; signed: Set<string> } {
  const signed = new Set<string>()
  const waits = [...delays]
  const probe = new Probe({
    endpoint: 'https://service.test',
    credentials: { apiKey: 'key', userSecret: 'secret' },
    rate: 1000,
    budget: 10,
    signal: new AbortController().signal,
    async fetch(_url, init) {
      const time = new Headers(init?.headers).get('X-Authorization-Timestamp') ?? ''
      signed.add(time)
      later += waits.shift() ?? 0
      return new Response('{}', { status: Date.now() - Number(time) > 5000 ? 401 : 400 })
    },
  })
  return { probe, signed }
}

test('a request that arrives when its signature is too old is signed and sent once more', async () => {
  const { probe, signed } = probeThatTakes([5100])
  expect((await probe.ask('/x')).status).toBe(400)
  expect(signed.size).toBe(2)
})

test('a request that is wrong on purpose is sent once', async () => {
  const { probe, signed } = probeThatTakes([5100])
  expect((await probe.ask('/x', { userSecret: 'another' })).status).toBe(401)
  expect(signed.size).toBe(1)
})

test('a correct request that is refused at once is sent once', async () => {
  const { probe, signed } = probeThatTakes([])
  probe.offset = -60_000
  expect((await probe.ask('/x')).status).toBe(401)
  expect(signed.size).toBe(1)
})
