import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import {
  hasTerminals,
  type InTerminal,
  startInTerminal,
  stateOf,
} from '@sluice/test-support/terminal.js'
import { inForm } from '@sluice/test-support/tier.js'
import { knownFeeds } from 'sluice'
import { start } from './support/cli.js'

const { feedID } = knownFeeds.testnet['ETH/USD']

test.each([
  [40, /price +bid +age$/],
  [80, /age +time +reports$/],
  [160, /date +time +reports$/],
])(
  'the table of stream has no number that is cut, on a terminal of %i columns',
  async (columns, head) => {
    const wide = { feedID, fields: { price: 310_194n * 10n ** 18n } }
    await using engine = await startDataEngine({ feeds: [wide], intervalMs: 50 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const running = start(['stream', 'ETH/USD'], {
      columns,
      terminals: ['stdout', 'stderr'],
      env: { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
    })
    await running.shows(/ETH\/USD +\d+\.\d{4}/)
    running.stop()
    const { code, out } = await running.ended
    const lines = stripVTControlCharacters(out)
      .split(/\r?\n/)
      .filter(line => /^(feed|ETH)/.test(line))
    expect(lines.findLast(line => line.startsWith('feed'))).toMatch(head)
    for (const line of lines) expect(line.length).toBeLessThan(columns)
    if (columns > 40) expect(lines.at(-1)).toMatch(/ \d\d:\d\d:\d\dZ /)
    expect(code).toBe(0)
  },
)

const testTable = hasTerminals ? test : test.skip
const FEEDS = Array.from({ length: 57 }, (_, at) => `0x0003${String(at).padStart(60, '0')}`)

describe('the table of stream with more feeds than rows', () => {
  let engine: DataEngine
  beforeAll(async () => {
    engine = await startDataEngine({ feeds: FEEDS, intervalMs: 1000 })
  })
  afterAll(() => engine.close())

  const startTable = (columns: number): Promise<InTerminal> => {
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    return startInTerminal(['stream', FEEDS.join()], {
      columns,
      env: { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
    })
  }
  /** The line below the rows that was drawn last. */
  const lastRows = ({ shown }: InTerminal): string | undefined =>
    stripVTControlCharacters(shown())
      .split(/\r?\n/)
      .findLast(line => line.startsWith('rows '))
  const untilRows = (table: InTerminal, rows: string): Promise<void> =>
    table.until(() => lastRows(table)?.startsWith(rows) === true)
  const isOurs = (settings: string): boolean => / icanon/.test(settings) && / echo /.test(settings)

  testTable.each(inForm(1, 3) === 1 ? [80] : [40, 80, 160])(
    'scrolls by keys, and q ends it, at %i columns',
    async columns => {
      const table = await startTable(columns)
      await untilRows(table, 'rows 1–26 of 57')
      if (columns > 40) expect(lastRows(table)).toBe('rows 1–26 of 57  (↑ ↓ PgUp PgDn, q ends)')
      for (const [keys, rows] of [
        ['j', 'rows 2–27 of 57'],
        ['\x1b[B\x1b[B', 'rows 4–29 of 57'],
        ['k\x1b[A', 'rows 2–27 of 57'],
        ['\x1b[6~', 'rows 28–53 of 57'],
        ['\x1b[6~\x1b[6~jj', 'rows 32–57 of 57'],
        ['\x1b[5~', 'rows 6–31 of 57'],
        ['\x1b[5~k', 'rows 1–26 of 57'],
      ] as const) {
        table.press(keys)
        await untilRows(table, rows)
      }
      expect(isOurs(table.settings())).toBe(false)
      table.press('q')
      const { code, out } = await table.ended
      expect(code).toBe(0)
      expect(stripVTControlCharacters(out)).toMatch(/sluice: \d+ reports?, /)
    },
  )

  testTable('fits a terminal that was resized, and no line is broken', async () => {
    const table = await startTable(100)
    await untilRows(table, 'rows 1–26 of 57')
    table.resize(50, 12)
    await untilRows(table, 'rows 1–8 of 57')
    const after = table.shown().split('\x1b[H\x1b[2J').at(-1) ?? ''
    const lines = stripVTControlCharacters(after).split(/\r?\n/)
    for (const line of lines) expect(line.length).toBeLessThan(50)
    table.press('\x03')
    expect((await table.ended).code).toBe(0)
  })

  testTable('gives the terminal back while it is suspended, and draws itself again', async () => {
    const table = await startTable(100)
    await untilRows(table, 'rows 1–26 of 57')
    const { pid } = table
    for (const suspend of [() => table.press('\x1a'), () => process.kill(pid, 'SIGTSTP')]) {
      expect(isOurs(table.settings())).toBe(false)
      suspend()
      await table.suspended()
      expect(isOurs(table.settings())).toBe(true)
      const before = table.shown().length
      table.resume()
      // Drawn below what the shell has shown: not over it. What was drawn before may be shown first.
      await table.until(() => {
        const drawn = table.shown().slice(before).split('rows 1–26 of 57').slice(0, -1)
        return drawn.some(each => !each.includes('\x1b[28A'))
      })
    }
    table.press('jq')
    expect((await table.ended).code).toBe(0)
  })

  testTable.each(['\x03', '\x1c', 'SIGTERM'] as const)(
    'gives the terminal back when it ends by %j',
    async how => {
      // Another process keeps the terminal open, so that the test can look at it.
      const table = await startTable(100)
      await untilRows(table, 'rows 1–26 of 57')
      const watching = spawn('sleep', ['60'], {
        stdio: [openSync(table.tty, 'r'), 'ignore', 'ignore'],
      })
      if (how === 'SIGTERM') process.kill(table.pid, how)
      else table.press(how)
      await table.until(() => stateOf(table.pid) === undefined || isOurs(table.settings()))
      watching.kill()
      const { code } = await table.ended
      expect(code === 0 || how === '\x1c').toBe(true)
    },
  )
})
