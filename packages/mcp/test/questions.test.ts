import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, type PublishedReport, startDataEngine } from '@sluice/engine'
import { AbiCoder, formatUnits } from 'ethers'
import {
  type Answer,
  envOf,
  recordingOf,
  type Session,
  startSession,
  temporaryFolder,
} from './support/mcp.js'

// The feeds of the engine: crypto, a currency whose market is closed, a fund whose ripcord is
// pulled, and two feeds of one asset.
const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const btcUsd = '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439'
const linkUsd = '0x00036fe43f87884450b4c7e093cd5ed99cac6640d8c2000e6afc02c8838d0265'
const eurUsd = '0x0004b9905d8337c34e00f8dbe31619428bac5c3937e73e6af75c71780f1770ce'
const fund = '0x0009d7e16a4b302f5c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb0c1d2e3'
const acmes = ['0x000be6f0', '0x000be6f1'].map(head => head.padEnd(66, '5'))
const retires = new Date(Date.now() + 20 * 86_400_000)

const folder = temporaryFolder()
let engine: DataEngine
let session: Session
/** A report of ETH that is signed, and the same with a changed value. */
let genuine: PublishedReport
let forged: PublishedReport

beforeAll(async () => {
  engine = await startDataEngine({
    intervalMs: 2000,
    history: 60,
    feeds: [
      ethUsd,
      btcUsd,
      linkUsd,
      {
        feedID: eurUsd,
        fields: { marketStatus: 1 },
        catalogue: { name: 'EUR/USD', assetName: 'Euro', expectedDecommissionAt: retires },
      },
      {
        feedID: fund,
        fields: { ripcord: 1 },
        catalogue: { name: 'Treasury Fund', baseAsset: 'TREAS' },
      },
      ...acmes.map((feedID, i) => ({
        feedID,
        catalogue: { name: `ACME-${i}`, baseAsset: 'ACME', quoteAsset: 'USD' },
      })),
    ],
  })
  session = await startSession(envOf(engine, { SLUICE_RECORDINGS: folder.path }))
  genuine = engine.publish(btcUsd, {}, { streamed: false })
  const lone = await startDataEngine({ feeds: [linkUsd], intervalMs: 0, seed: 7, history: 1 })
  forged = lone.ledger()[0] as PublishedReport
  await lone.close()
  const recorded = reportsOf(ethUsd).slice(0, 50)
  recordingOf(
    join(folder.path, 'eth.ndjson'),
    recorded.filter((_, i) => i !== 7),
  )
})
afterAll(async () => {
  await session.close()
  await engine.close()
  folder.remove()
})

const reportsOf = (feedID: string): PublishedReport[] =>
  engine.ledger().filter(each => each.feedID === feedID)

/** The first word after the common head of a report, by ethers: the price of version 3. */
function priceOf({ fullReport }: PublishedReport): string {
  const coder = AbiCoder.defaultAbiCoder()
  const outer = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32']
  const blob = coder.decode(outer, fullReport)[1] as string
  const head = ['bytes32', 'uint32', 'uint32', 'uint192', 'uint192', 'uint32']
  return formatUnits(coder.decode([...head, 'int192'], blob)[6] as bigint, 18).replace(/\.0$/, '')
}

const dateOf = ({ observationsTimestamp }: PublishedReport): string =>
  new Date(observationsTimestamp * 1000).toISOString().replace('.000', '')

/** The report of the ledger whose price was told. */
function expectLatest({ data }: Answer, feedID: string): void {
  const told = reportsOf(feedID).find(each => dateOf(each) === data.observedAt)
  expect(told).toBeDefined()
  expect(data.price).toBe(priceOf(told as PublishedReport))
  expect(reportsOf(feedID).slice(-2)).toContain(told)
}

type Input = Record<string, unknown>
/** A question of a user, the call that answers it, and what must come. */
const questions: readonly (readonly [
  question: string,
  tool: string,
  input: () => Input,
  check: (answer: Answer) => void,
])[] = [
  ['What is ETH at?', 'get_price', () => ({ feed: 'ETH/USD' }), each => expectLatest(each, ethUsd)],
  ['And bitcoin?', 'get_price', () => ({ feed: 'btc-usd' }), each => expectLatest(each, btcUsd)],
  [
    'How old is the price of LINK?',
    'get_price',
    () => ({ feed: 'LINK/USD' }),
    ({ data }) => {
      const age = (Date.now() - Date.parse(data.observedAt as string)) / 1000
      expect(Math.abs((data.ageSeconds as number) - age)).toBeLessThan(2)
      expect(data.warnings).toEqual([])
    },
  ],
  [
    'How many signers stand behind it?',
    'get_price',
    () => ({ feed: 'ETH/USD' }),
    ({ data }) => expect(data).toMatchObject({ signersCount: 2, signersNeeded: 2 }),
  ],
  [
    'What are bid and ask of ETH?',
    'get_price',
    () => ({ feed: ethUsd }),
    ({ data }) => {
      const [bid, price, ask] = [data.bid, data.price, data.ask].map(Number) as [
        number,
        number,
        number,
      ]
      expect(bid <= price && price <= ask).toBe(true)
    },
  ],
  [
    'What was ETH 40 seconds after the record begins?',
    'get_price_at',
    () => ({ feed: 'ETH/USD', at: reportsOf(ethUsd)[20]?.observationsTimestamp }),
    ({ data }) =>
      expect(data).toMatchObject({
        found: true,
        price: { price: priceOf(reportsOf(ethUsd)[20] as PublishedReport) },
      }),
  ],
  [
    'One second earlier? The same report holds it.',
    'get_price_at',
    () => ({ feed: 'ETH/USD', at: (reportsOf(ethUsd)[20]?.observationsTimestamp as number) - 1 }),
    ({ data }) =>
      expect(data).toMatchObject({
        found: true,
        price: { price: priceOf(reportsOf(ethUsd)[20] as PublishedReport) },
      }),
  ],
  [
    'Can you prove it?',
    'get_price_at',
    () => ({ feed: 'ETH/USD', at: reportsOf(ethUsd)[20]?.observationsTimestamp, proof: true }),
    ({ data }) => {
      const proof = JSON.parse(data.proof as string)
      expect(proof.reports).toEqual([reportsOf(ethUsd)[20]?.fullReport])
    },
  ],
  [
    'What was ETH in the summer of 2020?',
    'get_price_at',
    () => ({ feed: 'ETH/USD', at: '2020-07-01T12:00Z' }),
    ({ data, text }) => {
      expect(data).toMatchObject({ found: false, reason: 'missing' })
      expect(text).toContain('Do not give the price of another moment')
    },
  ],
  [
    'What will ETH be tomorrow?',
    'get_price_at',
    () => ({ feed: 'ETH/USD', at: new Date(Date.now() + 86_400_000).toISOString() }),
    ({ text }) => expect(text).toMatch(/^invalid-input: at must not be in the future/),
  ],
  [
    'What is DOGE at? The service does not have it.',
    'get_price',
    () => ({ feed: 'DOGE/USD' }),
    ({ failure }) => expect(failure).toBe('unknown-feed'),
  ],
  [
    'What is ACME at? There are two feeds.',
    'get_price',
    () => ({ feed: 'ACME/USD' }),
    ({ failure, text }) => {
      expect(failure).toBe('ambiguous-feed')
      for (const each of acmes) expect(text).toContain(each)
    },
  ],
  [
    'Which feeds of ACME are there?',
    'find_feeds',
    () => ({ query: 'acme usd' }),
    ({ data }) => {
      const found = (data.feeds as { feedID: string }[]).map(({ feedID }) => feedID)
      expect(found.sort()).toEqual([...acmes].sort())
    },
  ],
  [
    'Is the feed of the euro going to stay?',
    'find_feeds',
    () => ({ query: 'euro' }),
    ({ data }) => {
      const [feed] = data.feeds as { retiresAt: string }[]
      expect(Date.parse(feed?.retiresAt ?? '')).toBeGreaterThan(Date.now())
    },
  ],
  [
    'What is the fund worth? Its ripcord is pulled.',
    'get_price',
    () => ({ feed: fund }),
    ({ failure }) => expect(failure).toBe('not-usable'),
  ],
  [
    'May I trade ETH now?',
    'get_market_state',
    () => ({ feed: 'ETH/USD' }),
    ({ data }) => expect(data).toMatchObject({ tradable: true, reason: 'open' }),
  ],
  [
    'May I trade the euro now?',
    'get_market_state',
    () => ({ feed: 'EUR/USD' }),
    ({ data }) => expect(data).toMatchObject({ tradable: false, reason: 'closed' }),
  ],
  [
    'Does my recording lack reports?',
    'find_gaps',
    () => ({ file: 'eth.ndjson' }),
    ({ data }) => {
      expect(data).toMatchObject({ reports: 49, missing: 1 })
      const [gap] = data.gaps as { to: string }[]
      expect(gap?.to).toBe(dateOf(reportsOf(ethUsd)[7] as PublishedReport))
    },
  ],
  [
    'A colleague sent me this report. Is it real?',
    'check_report',
    () => ({ report: genuine.fullReport }),
    ({ data }) => expect(data).toMatchObject({ feedID: btcUsd, price: priceOf(genuine) }),
  ],
  [
    'And this one, of another network?',
    'check_report',
    () => ({ report: forged.fullReport }),
    ({ failure, text }) => {
      expect(failure).toBe('not-verified')
      expect(text).not.toContain(priceOf(forged).slice(0, 6))
    },
  ],
]

test('there are twenty questions', () => expect(questions).toHaveLength(20))

test.each(questions)('%s', async (_question, tool, input, check) => {
  check(await session.call(tool, input()))
})
