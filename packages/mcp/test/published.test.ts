// Reports that the service published, with their fields by an independent decoder and their signers.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { publishedReports } from '@sluice/test-support/report/published-reports.js'
import { publishedSigners } from '@sluice/test-support/report/signed-reports.js'
import { type Session, startSession } from './support/mcp.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-mcp-'))
const file = join(folder, 'signers.json')
let session: Session

beforeAll(async () => {
  writeFileSync(file, JSON.stringify(publishedSigners))
  session = await startSession({ PATH: process.env.PATH ?? '', SLUICE_SIGNERS: file })
})
afterAll(async () => {
  await session.close()
  rmSync(folder, { recursive: true })
})

test.each(publishedReports)(
  'the published report of $configDigest is told as it is',
  async given => {
    const { data } = await session.call('check_report', { report: given.fullReport })
    const { feedID, observationsTimestamp, validFromTimestamp, ...fields } = given.decoded
    const dateOf = (seconds = '') =>
      new Date(1000 * Number(seconds)).toISOString().replace('.000', '')
    expect(data).toMatchObject({
      feedID,
      schema: given.version,
      observedAt: dateOf(observationsTimestamp),
      holdsFrom: dateOf(validFromTimestamp),
      signersCount: given.signers.length,
    })
    const told = data.values as { field: string; integer: string }[]
    expect(told.length).toBeGreaterThan(0)
    for (const { field, integer } of told) expect([field, integer]).toEqual([field, fields[field]])
    for (const field of ['price', 'bid', 'ask'])
      expect(told.find(each => each.field === field)?.integer).toBe(fields[field])
  },
)

test.each(publishedReports)('a changed digit of $configDigest is not verified', async given => {
  const { fullReport, decoded } = given
  const at = 2 + 64 * 15 - 1 // the last digit of the price
  const changed = fullReport[at] === '7' ? '8' : '7'
  const report = `${fullReport.slice(0, at)}${changed}${fullReport.slice(at + 1)}`
  const { failure, text } = await session.call('check_report', { report })
  expect(failure).toBe('not-verified')
  expect(text).not.toContain(String(decoded.price).slice(0, 8))
})
