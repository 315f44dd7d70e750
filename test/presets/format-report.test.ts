import { expect, test } from '@jest/globals'
import { formatReport } from '../../official-sdk.js'
import { decodeReport } from '../../plugins/decoders/versions.js'
import { publishedReports } from '../support/report/published-reports.js'

test('formatReport writes every field, a line each, values as they are', () => {
  const [{ feedID, fullReport }] = publishedReports as [(typeof publishedReports)[0]]
  const data = decodeReport(fullReport, feedID)
  const lines = formatReport(data).split('\n')
  const written = lines.map(line => line.split(/ {2,}/))
  expect(written).toEqual(Object.entries(data).map(([name, value]) => [name, String(value)]))
  expect(new Set(lines.map(line => line.search(/(?<= {2})\S/))).size).toBe(1)
})
