import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { createClient, type DecodedReport, type Report } from '../../index.js'

interface Published {
  readonly feedID: string
  readonly fullReport: string
  readonly decoded: Readonly<Record<string, string>>
}
const path = join(__dirname, '../vectors/published-reports.json')
const { reports } = JSON.parse(readFileSync(path, 'utf8')) as { reports: Published[] }

test('the published reports, replayed, reach a stream unchanged and decode to their published fields', async () => {
  const engine = await startDataEngine({ replay: reports, intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const stream = client.createStream(engine.feeds)
  const seen: Report<DecodedReport>[] = []
  const errors: unknown[] = []
  stream.on('report', report => void seen.push(report))
  stream.on('error', error => void errors.push(error))
  await stream.connect()
  while (engine.replayNext() !== undefined);
  for (let waited = 0; seen.length < reports.length && waited < 5000; waited += 5) {
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  await client.close()
  await engine.close()
  expect(errors).toEqual([])
  expect(seen.map(report => report.fullReport)).toEqual(reports.map(report => report.fullReport))
  for (const [index, { decoded }] of reports.entries()) {
    const ours = seen[index]?.decoded as unknown as Record<string, unknown>
    expect(
      Object.fromEntries(Object.keys(decoded).map(name => [name, String(ours[name])])),
    ).toEqual(decoded)
  }
})
