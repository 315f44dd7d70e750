// The playground reads reports word by word, on its own: it must agree with the library on every report, whole or broken.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { decodeReport } from '../../plugins/decoders/versions.js'
import { readInput } from '../../site/playground/input.js'
import { inspectReport } from '../../site/playground/inspect.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  randomFrom,
  resolutions,
  versions,
} from '../support/report/report-arbitrary.js'
import { mutants } from '../support/report/report-mutations.js'
import { root } from '../support/sources.js'
import { inForm } from '../support/tier.js'

const MUTANTS = inForm(15, 150)
const SEED = Number(process.env.SEED ?? 0)

/** The values that the library reads, as exact text. */
function decodedText(fullReport: string, feedID: string): Record<string, string> {
  const decoded: Record<string, unknown> = { ...decodeReport(fullReport, feedID) }
  const names = Object.keys(decoded).filter(name => name !== 'version' && !name.endsWith('Raw'))
  return Object.fromEntries(
    names.map(name => [name, String(decoded[`${name}Raw`] ?? decoded[name])]),
  )
}

/** Compares the playground's reading with the library's. */
function compare(fullReport: string): boolean {
  const { feedID, parts, problems, refusal } = inspectReport(fullReport)
  expect(problems.length > 0).toBe(refusal !== undefined)
  if (refusal !== undefined) return false
  const fields = parts.filter(({ group }) => group === 'fields')
  const read = Object.fromEntries(fields.map(({ name, value }) => [name, value]))
  expect(read).toEqual(decodedText(fullReport, feedID as string))
  // The parts cover each byte once.
  let end = 0
  for (const { at, length } of parts) {
    expect(at).toBe(end)
    end += length
  }
  expect(end).toBe((fullReport.length - 2) / 2)
  return true
}

test('published reports have no mistake', () => {
  for (const { fullReport } of publishedReports) expect(compare(fullReport)).toBe(true)
})

describe.each(versions)('of version %i', version => {
  test.each(resolutions)(
    `broken reports have a mistake where the library refuses them (%s, SEED=${SEED})`,
    resolution => {
      const random = randomFrom(version + SEED)
      const feedID = feedIDOf(version, resolution, 7n)
      const fields = fieldsOf(version, resolution)
      const values = fields.map(({ name, type }) => {
        if (name === 'feedID') return feedID
        return type === 'uint32' ? random() : BigInt(random())
      })
      const fullReport = encodeReport(fields, values, envelopeFrom(version, 2))
      expect(compare(fullReport)).toBe(true)
      const original = { version, resolution, feedID, fullReport }
      let accepted = 0
      for (const mutant of mutants(original, version + SEED, MUTANTS))
        if (typeof mutant.fullReport === 'string' && /^0x/.test(mutant.fullReport))
          accepted += compare(mutant.fullReport) ? 1 : 0
      expect(accepted).toBeLessThan(MUTANTS)
    },
  )
})

test('the examples are the published reports', () => {
  const json = (path: string): string => readFileSync(`${root}/${path}`, 'utf8')
  const { examples } = JSON.parse(json('site/playground/examples.json')) as {
    examples: { name: string; text: string }[]
  }
  const published =
    json('test/vectors/published-reports.json') + json('test/vectors/signed-reports.json')
  for (const { name, text } of examples) {
    const input = readInput(text)
    const reports =
      input.kind === 'reports'
        ? input.reports.map(({ fullReport }) => fullReport)
        : input.kind === 'proof'
          ? (input.proof.reports as string[])
          : []
    expect(reports).toHaveLength(1)
    const isChanged = name.startsWith('Damaged: one')
    for (const report of reports) expect(published.includes(report)).toBe(!isChanged)
  }
})
