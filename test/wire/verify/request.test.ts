import { describe, expect, test } from '@jest/globals'
import { failureOf, until } from '../../support/waiting.js'
import {
  btcUsd,
  clientOf,
  ethUsd,
  publisher,
  slowSource,
  start,
} from '../../support/wire/verify.js'

describe('a request that verifies', () => {
  test('gives true reports, in order', async () => {
    const engine = await start({ feeds: [ethUsd, btcUsd], history: 5 })
    const client = clientOf(engine)
    const latest = await client.getLatestReport(ethUsd)
    await latest.verify()
    const from = latest.observationsTimestamp - 10
    const page = await client.getReportsPage(ethUsd, from)
    const times = page.map(each => each.observationsTimestamp)
    expect(times).toHaveLength(5)
    expect(times).toEqual([...times].sort((one, other) => one - other))
    const bulk = await client.getReportsBulk([btcUsd, ethUsd], latest.observationsTimestamp - 1)
    expect(bulk.map(({ feedID }) => feedID)).toEqual([btcUsd, ethUsd])
    expect(await client.getReportByTimestamp(ethUsd, times[2] as number)).toMatchObject({
      observationsTimestamp: times[2],
    })
  })

  test('rejects with the reason where one report is forged', async () => {
    const engine = await start()
    const publish = publisher(engine)
    const good = publish()
    publish({ forged: 'signer' })
    const client = clientOf(engine)
    const expected = { name: 'ReportVerificationError', reason: 'unknown-signer' }
    expect(await failureOf(client.getLatestReport(ethUsd))).toMatchObject(expected)
    const from = good.observationsTimestamp
    expect(await failureOf(client.getReportsPage(ethUsd, from))).toMatchObject(expected)
    expect(await client.getReportByTimestamp(ethUsd, from)).toMatchObject({
      fullReport: good.fullReport,
    })
  })

  test('gives unverified reports on demand', async () => {
    const engine = await start()
    publisher(engine)({ forged: 'signer' })
    const client = clientOf(engine, { mode: 'on-demand' })
    const report = await client.getLatestReport(ethUsd)
    expect(await failureOf(report.verify())).toMatchObject({ reason: 'unknown-signer' })
  })

  test('ends with its signal while the signers are looked up', async () => {
    const engine = await start({ history: 1 })
    const { source, asked } = slowSource(engine.network)
    const client = clientOf(engine, { signers: source })
    const controller = new AbortController()
    const asking = client.getLatestReport(ethUsd, { signal: controller.signal })
    await until(() => asked.length === 1)
    controller.abort(new Error('enough'))
    expect(await failureOf(asking)).toMatchObject({ message: 'enough' })
  })
})
