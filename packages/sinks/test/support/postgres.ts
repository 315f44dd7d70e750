// Databases of a test on a real Postgres, and what is read back from them by SQL.
import { afterAll, beforeAll } from '@jest/globals'
import { Client } from 'pg'
import type { SinkBatch, SinkOpening, SinkStore } from 'sluice/plugins/sink'
import { type PostgresServer, startPostgres } from './postgres-server.mjs'

/** What a sink gives a store that it opens. */
export const opening: SinkOpening = { log: {}, signal: new AbortController().signal }

/** A batch of which a test gives what matters to it. */
export const batchOf = (parts: Partial<SinkBatch>): SinkBatch => ({
  reports: [],
  receivedAt: (parts.reports ?? []).map(() => Date.now()),
  candles: [],
  position: undefined,
  ...parts,
})

/** A database of a test. */
export class Database {
  readonly url: string
  readonly #stores: SinkStore[] = []

  constructor(url: string) {
    this.url = url
  }

  /** Runs SQL on a connection of its own. */
  async run<Row = Record<string, unknown>>(
    text: string,
    values: unknown[] = [],
  ): Promise<readonly Row[]> {
    const client = new Client({ connectionString: this.url })
    await client.connect()
    try {
      const result = await client.query(text, values)
      return result.rows ?? []
    } finally {
      await client.end()
    }
  }

  /** A connection that a test holds. */
  async connect(): Promise<Client> {
    const client = new Client({ connectionString: this.url })
    client.on('error', () => undefined)
    await client.connect()
    return client
  }

  /** How many rows a table has. */
  async count(table: string): Promise<number> {
    const [row] = await this.run<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`)
    return row?.n ?? -1
  }

  /** Opens a store, and closes it at the end of the file. */
  async open(store: SinkStore): Promise<SinkStore> {
    this.#stores.push(store)
    await store.open(opening)
    return store
  }

  async close(): Promise<void> {
    for (const store of this.#stores) await store.close()
  }
}

/** A server for the tests of a file. Each test makes databases of its own. */
export function usePostgres(): {
  readonly server: PostgresServer
  /** Makes a database. */
  create(): Promise<Database>
} {
  let server: PostgresServer | undefined
  let count = 0
  const databases: Database[] = []
  const started = (): PostgresServer => {
    if (server === undefined) throw new Error('the server has not been started')
    return server
  }
  beforeAll(async () => {
    server = await startPostgres(process.env.POSTGRES_PROGRAMS)
  })
  afterAll(async () => {
    for (const database of databases) await database.close()
    await server?.close()
  })
  return {
    get server() {
      return started()
    },
    async create() {
      const name = `test_${++count}`
      await new Database(started().url()).run(`CREATE DATABASE ${name}`)
      const database = new Database(started().url(name))
      databases.push(database)
      return database
    },
  }
}
