import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { transformSync } from 'esbuild'
import { Database } from 'node-sqlite3-wasm'
import { createClient, decodeReport, defaultPreset } from '../../../index.js'
import { type SinkStore, sink } from '../../../plugins/sink/index.js'
import { type StoredReport, testSink } from '../../../testing/index.js'
import { blocksOf, pageOf } from '../../docs/pages.js'
import { hurry } from '../../support/hurry.js'
import { feedID, startService } from '../../support/service/service.js'
import { until } from '../../support/waiting.js'

beforeEach(() => hurry())

let path: string
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-recipes-'))
  path = join(folder, 'reports.db')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** The store as its page has it. */
function recipe(): (db: unknown) => SinkStore {
  const block = blocksOf(pageOf('docs/recipes/sink-sqlite.md')).find(({ code }) =>
    code.includes('sqliteStore ='),
  )
  const { code } = transformSync(block?.code ?? '', { loader: 'ts', format: 'cjs' })
  const module = { exports: {} as { sqliteStore: (db: unknown) => SinkStore } }
  new Function('module', 'exports', code)(module, module.exports)
  return module.exports.sqliteStore
}

/** A database with the methods of node:sqlite: this Node may be too old to have it. */
function openDatabase() {
  const db = new Database(path)
  const statements: { finalize(): void }[] = []
  return {
    exec: (sql: string) => db.exec(sql),
    prepare(sql: string) {
      const statement = db.prepare(sql)
      statements.push(statement)
      return {
        run: (...values: never[]) => statement.run(values),
        all: () => statement.all(),
      }
    },
    close() {
      for (const statement of statements) statement.finalize()
      db.close()
    },
  }
}

interface Row {
  readonly feed: string
  readonly time: number
  readonly report: string
}

function rows(): readonly Row[] {
  const db = openDatabase()
  const found = db.prepare('SELECT * FROM reports ORDER BY time').all() as unknown as Row[]
  db.close()
  return found
}

test('SQLite: the store of the recipe keeps the rules', async () => {
  const sqliteStore = recipe()
  const read = async (): Promise<StoredReport[]> =>
    rows().map(({ feed, time, report }) => ({
      feedID: feed,
      observationsTimestamp: time,
      price: (decodeReport(report, feed) as { readonly price: bigint }).price,
    }))
  // The store is closed before it is read.
  let opened: SinkStore | undefined
  const result = await testSink(
    () => {
      opened = sqliteStore(openDatabase())
      return opened
    },
    { read },
  )
  expect(result).toMatchObject({ hasPosition: true, refused: 0 })
})

test('SQLite: with the store of the recipe the next stream resumes from the position, and stores a late report', async () => {
  const sqliteStore = recipe()
  const feed = feedID(3, 1, { milliseconds: true })
  const service = await startService({ feeds: [feed], signatures: 'dummy' })
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const start = async () => {
    const prices = sink(sqliteStore(openDatabase()), { maxDelay: 5 })
    const preset = defaultPreset({ apiKey, userSecret, retryDelay: 5 })
    const client = createClient({ endpoint, wsEndpoint, plugins: [prices, ...preset] })
    await client.createStream(feed, { saveInterval: 0 }).connect()
    return { prices, close: () => client.close().then(() => prices.close()) }
  }
  try {
    const first = await start()
    const one = service.publish(feed)
    const two = service.skip(feed)
    const three = service.publish(feed)
    await until(() => first.prices.metrics().written === 2)
    await first.close()
    expect(rows().map(({ time }) => time)).toEqual([one.observed, three.observed])
    service.store(two)
    const next = await start()
    await until(() => next.prices.metrics().written > 0 && rows().length === 3)
    await next.close()
    expect(rows().map(({ time }) => time)).toEqual([one.observed, two.observed, three.observed])
  } finally {
    await service.close()
  }
})
