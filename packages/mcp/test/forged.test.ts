import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, type Forgery, startDataEngine } from '@sluice/engine'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { inForm } from '@sluice/test-support/tier.js'
import { envOf, type Session, startBoth, startSession } from './support/mcp.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const forgeries: readonly Forgery[] = [
  'signature',
  'signer',
  'digest',
  'few',
  'repeated',
  'high-s',
  'v',
  'context',
  'value',
]
const closers = closeAfterEach()

/** Digits that stand nowhere else. */
const digits = '9173645281'
const price = BigInt(`${digits}000000000000000000`)
/** Each way in which a part of the price could be told. */
const traces = [
  digits,
  digits.slice(0, 7),
  Number(digits).toLocaleString('en'),
  price.toString(16),
  price.toString(16).slice(0, 9),
  Number(price).toExponential(3),
]

/** How far the clock of the engine is behind: no two reports of a feed share a second. */
let behind = 60_000
let engine: DataEngine
let session: Session
let close: () => Promise<void>
beforeAll(async () => {
  const now = (): number => Date.now() - behind
  ;({ engine, session, close } = await startBoth({ feeds: [ethUsd], intervalMs: 0, now }))
})
afterAll(() => close())

function expectNoPrice(of: Session = session): void {
  for (const trace of traces) expect(of.traffic()).not.toContain(trace)
}

test.each(forgeries)('a forgery (%s) brings an error and no digit of it', async forged => {
  const fields = { price, bid: price, ask: price }
  behind -= 1000
  const { fullReport, observationsTimestamp: at } = engine.publish(ethUsd, fields, { forged })
  for (const [tool, input] of [
    ['get_price', { feed: 'ETH/USD' }],
    ['get_price_at', { feed: ethUsd, at }],
    ['get_price_at', { feed: ethUsd, at, proof: true }],
    ['check_report', { report: fullReport }],
  ] as const) {
    const { failure, text } = await session.call(tool, input)
    expect([tool, failure]).toEqual([tool, 'not-verified'])
    expect(text).toContain('no price is told')
  }
  expectNoPrice()
})

test('a stream of forgeries is no market', async () => {
  const other = await startSession(envOf(engine), { firstReport: 500 })
  closers.push(() => other.close())
  const timer = setInterval(() => {
    behind -= 1000
    engine.publish(ethUsd, { price, bid: price, ask: price }, { forged: 'signer' })
  }, 50)
  closers.push(() => clearInterval(timer))
  let failure = 'unavailable'
  // The stream may open later than the service waits for it here.
  while (failure === 'unavailable' || failure === '') {
    const answer = await other.call('get_market_state', { feed: ethUsd })
    failure = answer.failure
    if (failure === '') expect(answer.data).toMatchObject({ tradable: false, reason: 'no-report' })
  }
  expect(failure).toBe('not-verified')
  expectNoPrice(other)
})

test('signers that were replaced are not believed', async () => {
  const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const other = await startSession(envOf(own))
  closers.push(
    () => own.close(),
    () => other.close(),
  )
  own.rotate()
  own.publish(ethUsd, { price, bid: price, ask: price })
  expect((await other.call('get_price', { feed: ethUsd })).failure).toBe('not-verified')
  expectNoPrice(other)
})

test('what the service writes is not passed on', async () => {
  const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const other = await startSession(envOf(own))
  closers.push(
    () => own.close(),
    () => other.close(),
  )
  const bodies = [
    JSON.stringify({ message: `the price is ${digits}` }),
    `{ "report": "${digits}`,
    JSON.stringify({ report: { feedID: ethUsd, fullReport: `0x${digits}` } }),
    JSON.stringify({ report: { feedID: digits, price: digits } }),
    digits,
  ]
  // A request that is answered with 500 is sent again, after a while.
  for (const status of [200, 400, 401, 404, 500])
    for (const body of status === 500 ? bodies.slice(0, inForm(1, 5)) : bodies) {
      const path = '/api/v1/reports'
      const heal = own.fail({ status, body, path, times: Number.POSITIVE_INFINITY })
      const { isError } = await other.call('get_price', { feed: 'ETH/USD' })
      expect([status, body, isError]).toEqual([status, body, true])
      heal()
    }
  const page = '<html><title>Log in to the network</title>'
  own.fail({ status: 404, body: page, path: '/api/v1/reports', times: 99 })
  const { text } = await other.call('get_price', { feed: 'ETH/USD' })
  expect(text).toContain('something in front of the service answered with the status 404')
  expectNoPrice(other)
})

test('without signers no price is told, and no report is asked for', async () => {
  const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const { SLUICE_SIGNERS: _, SLUICE_F: __, ...env } = envOf(own)
  const other = await startSession(env)
  closers.push(
    () => own.close(),
    () => other.close(),
  )
  const { fullReport, observationsTimestamp: at } = own.publish(ethUsd, { price })
  for (const [tool, input] of [
    ['get_price', { feed: ethUsd }],
    ['get_price_at', { feed: ethUsd, at }],
    ['get_market_state', { feed: ethUsd }],
    ['check_report', { report: fullReport }],
  ] as const) {
    const { failure, text } = await other.call(tool, input)
    expect([tool, failure]).toEqual([tool, 'not-configured'])
    expect(text).toContain('SLUICE_SIGNERS')
  }
  expect((await other.call('find_feeds')).isError).toBe(false)
  expect(own.requests().filter(({ path }) => path.includes('reports'))).toEqual([])
  expectNoPrice(other)
})
