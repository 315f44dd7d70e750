import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { CertifyContext } from '../../certify/context.js'
import { Probe } from '../../certify/probe.js'
import { ProbeConnection } from '../../certify/stream-watch.js'

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

test('so is a request that is wrong on purpose in something else than its time', async () => {
  const { probe, signed } = probeThatTakes([5100, 0, 5100])
  expect((await probe.ask('/x', { userSecret: 'another' })).status).toBe(400)
  expect(signed.size).toBe(2)
  expect((await probe.ask('/x', { shiftMs: -8000 })).status).toBe(401)
  expect(signed.size).toBe(3)
})

test('a request whose signature is too old twice says nothing about the service', async () => {
  const { probe } = probeThatTakes([5100, 5100])
  await expect(probe.ask('/x')).rejects.toThrow(/^answered 401 when the signature was 5\.\d s old$/)
})

test('an upgrade that is refused when its signature is too old is signed and sent once more', async () => {
  const { probe } = probeThatTakes([])
  const statuses = [401, 400]
  const context = {
    ...{ probe, feedIDs: [], stopped: new AbortController().signal },
    subject: { wsEndpoint: 'wss://service.test' },
    async connect(_upgrade: unknown, { refused }: { refused(status: number): void }) {
      if (statuses.length === 2) later += 5100
      refused(statuses.shift() as number)
      return { terminate: () => undefined }
    },
  } as unknown as CertifyContext
  expect((await ProbeConnection.open(context, { path: '/api/v1/ws' })).status).toBe(400)
})

test('a correct request that is refused at once is sent once', async () => {
  const { probe, signed } = probeThatTakes([])
  probe.offset = -60_000
  expect((await probe.ask('/x')).status).toBe(401)
  expect(signed.size).toBe(1)
})
