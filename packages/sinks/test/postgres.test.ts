// The store of Postgres without a server: its options, its name, and the package that may be missing.
import { inspect } from 'node:util'
import { describe, expect, jest, test } from '@jest/globals'
import { postgres } from '@sluice/sinks/postgres'
import { ValidationError } from 'sluice/core'
import { formatDecimal } from '../postgres/rows.js'
import { integerOf } from './support/decimals.js'

jest.mock('pg', () => {
  throw new Error("Cannot find package 'pg'")
})

const PASSWORD = 'hunter22'
const url = `postgres://user:${PASSWORD}@db.example:5433/prices`

test('a URL names server and database, and nothing else', () => {
  expect(postgres(url).name).toBe('postgres db.example:5433/prices')
  expect(postgres('postgresql:///prices?host=/run/pg').name).toBe('postgres /run/pg/prices')
  expect(postgres('postgres://u:p@%2Frun%2Fpg/prices').name).toBe('postgres /run/pg/prices')
  expect(postgres('postgres://u:p@/prices?host=/run/pg').name).toBe('postgres /run/pg/prices')
  expect(postgres(`postgres://h/db?password=${PASSWORD}`).name).toBe('postgres h/db')
  expect(inspect(postgres(url), { depth: 9, showHidden: true })).not.toContain(PASSWORD)
  expect(JSON.stringify(postgres(url))).not.toContain(PASSWORD)
})

test.each([
  undefined,
  '',
  'mysql://user:hunter22@h/db',
  'hunter22',
  'postgres://user:hunter22 @h:x/db',
  // A password that is not escaped: a part of it would be taken for the database.
  'postgres://user:12/hunter22@h/db',
  'postgres://user:12?hunter22@h/db',
  'postgres://user:12#hunter22@h/db',
  'postgres://user:12#hunter22',
])('a wrong URL (%#) is refused without being shown', given => {
  let error: unknown
  try {
    postgres(given as string)
  } catch (thrown) {
    error = thrown
  }
  expect(error).toBeInstanceOf(ValidationError)
  expect((error as Error).message).toMatch(/^url must be postgres:/)
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('hunter22')
})

describe('options', () => {
  test.each([
    [{ raw: 1 }, 'raw must be true or false'],
    [{ decimals: 19 }, 'decimals must be a whole number from 0 to 18'],
    [{ decimals: { '0x00': -1 } }, 'decimals[0x00] must be'],
    [{ schema: '' }, 'schema must not be empty'],
    [{ name: 7 }, 'name must be a string'],
    [{ hypertable: 'yes' }, "hypertable must be 'auto', not 'yes'"],
    [{ timeout: 0 }, 'timeout must be at least 1'],
    [{ decoders: [3] }, 'decoders[0] must be a decoder: defineDecoder makes one'],
    [{ shema: 'x' }, "unknown option 'shema' of postgres; did you mean 'schema'?"],
  ])('%p are refused', (options, message) => {
    expect(() => postgres(url, options as object)).toThrow(message)
  })
})

test('without the package pg, the error says what to install', async () => {
  const store = postgres(url)
  const opened = store.open({ log: {}, signal: new AbortController().signal })
  await expect(opened).rejects.toBeInstanceOf(ValidationError)
  await expect(opened).rejects.toThrow('the package pg could not be loaded: npm install pg')
  await store.close()
})

test('a decimal is exact, and has no needless zeros', () => {
  const unit = 10n ** 18n
  for (const [value, text] of [
    [0n, '0'],
    [unit, '1'],
    [-1n, '-0.000000000000000001'],
    [unit / 2n, '0.5'],
    [-(3n * unit) / 2n, '-1.5'],
    [1_000n * unit, '1000'],
    [-(2n ** 191n), '-3138550867693340381917894711603833208051.177722232017256448'],
  ] as const) {
    expect(formatDecimal(value)).toBe(text)
    expect(integerOf(text, 18)).toBe(value)
  }
})
