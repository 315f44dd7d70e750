import { expect, test } from '@jest/globals'
import { hoursModels } from '../../plugins/market-guard/hours.js'
import { marketReasons } from '../../plugins/market-guard/index.js'
import { readSettings } from '../../plugins/market-guard/policy.js'
import { tableUnder } from '../support/tables.js'
import { pageOf } from './pages.js'

const { text } = pageOf('docs/reference/market-guard.md')
const nameIn = (cell = ''): string => cell.replaceAll('`', '')

test('the table of conditions is that of the code, in its order', () => {
  const rows = tableUnder('The conditions', text).map(row => ({
    reason: nameIn(row.reason),
    tradable: row.tradable === 'yes',
    caution: row.caution === 'yes',
  }))
  expect(rows).toEqual(
    Object.entries(marketReasons).map(([reason, { tradable, caution }]) => ({
      reason,
      tradable,
      caution,
    })),
  )
})

test('the hours models are those of the code', () => {
  const models = tableUnder('Hours', text).map(({ model }) => nameIn(model))
  expect(models).toEqual(Object.keys(hoursModels))
})

test('the options have the defaults of the code', () => {
  const policy = readSettings({}).policyOf(`0x0003${'ab'.repeat(30)}`)
  const rows = tableUnder('Options', text)
  const shown = Object.fromEntries(rows.map(row => [nameIn(row.option), nameIn(row.default)]))
  expect(shown).toMatchObject(
    Object.fromEntries(
      Object.entries(policy).map(([name, value]) => [
        name,
        typeof value === 'string' ? `'${value}'` : String(value),
      ]),
    ),
  )
})

test('the options in the table of conditions exist', () => {
  const options = tableUnder('Options', text).map(row => nameIn(row.option))
  const used = tableUnder('The conditions', text).flatMap(row =>
    nameIn(row.option).split(', ').filter(Boolean),
  )
  for (const name of used) expect(options).toContain(name)
})
