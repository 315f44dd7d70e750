// The store of Postgres against a server that refuses, fails, hangs or has other tables.
import { chownSync, copyFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { afterEach, describe, expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { postgres } from '@sluice/sinks/postgres'
import { ValidationError } from 'sluice/core'
import type { SinkStore } from 'sluice/plugins/sink'
import { batchOf, Database, opening, usePostgres } from './support/postgres.js'
import { feedOf, makeCandle, makeReport, makeReports, positionOf, TIME } from './support/reports.js'

const world = usePostgres()

/** What a promise rejects with. It never shows the password of the server. */
async function failureOf(promise: Promise<unknown>): Promise<Error & { isRetryable?: boolean }> {
  const error = await promise.then(
    () => undefined,
    thrown => thrown,
  )
  if (!(error instanceof Error)) throw new Error('it did not reject')
  expectNoSecret(error)
  return error
}

function expectNoSecret(value: unknown): void {
  const { password } = world.server
  for (const shown of [inspect(value, { depth: 9, showHidden: true }), JSON.stringify(value)]) {
    expect(shown).not.toContain(password)
    expect(shown).not.toContain(encodeURIComponent(password))
  }
}

/** Holds an error to one that ends the stream, and says what to do. */
function expectFinal(error: unknown, message: RegExp): void {
  expect(error).toBeInstanceOf(ValidationError)
  expect((error as Error).message).toMatch(message)
}

/** Holds an error to one after which the sink tries again. */
function expectRetryable(error: unknown, message: RegExp): void {
  expect(error).not.toBeInstanceOf(ValidationError)
  expect(error).toMatchObject({ isRetryable: true, message: expect.stringMatching(message) })
}

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A server on 127.0.0.1. */
async function listen(serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server: Server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    serve(socket)
  }).listen(0, '127.0.0.1')
  closing.push(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  await new Promise(resolve => server.once('listening', resolve))
  return (server.address() as { port: number }).port
}

/** The parts of a URL that a test changes. */
type Change = Partial<Pick<URL, 'username' | 'password' | 'pathname' | 'search' | 'port'>>

const at = (url: string, change: Change): string => Object.assign(new URL(url), change).href

describe('opening fails for good', () => {
  test.each([
    ['a wrong password', { password: 'wrong' }, /correct the user, or the password/],
    ['an unknown user', { username: 'nobody' }, /correct the user, or the password/],
    ['no password', { password: '' }, /give the password in PGPASSWORD/],
    ['no database', { pathname: '/none' }, /create the database/],
    ['a server without TLS', { search: '?sslmode=verify-full' }, /sslmode=disable/],
    ['a certificate that is no file', { search: '?sslrootcert=/none.pem' }, /none\.pem/],
  ])('with %s', async (_name, change, message) => {
    const store = postgres(at(world.server.url(), change))
    expectFinal(await failureOf(store.open(opening)), message)
    expectNoSecret(store)
    await store.close()
  })

  test('with a schema that is not there', async () => {
    const store = postgres(world.server.url(), { schema: 'pri"ces' })
    expectFinal(await failureOf(store.open(opening)), /CREATE SCHEMA "pri""ces"/)
    await store.close()
  })

  test('without the right to make tables, until an owner has made them', async () => {
    const database = await world.create()
    await database.run('CREATE ROLE "writer" LOGIN PASSWORD \'w\'')
    const url = at(database.url, { username: 'writer', password: 'w' })
    const store = postgres(url)
    expectFinal(await failureOf(store.open(opening)), /permission denied.*grant the right/)
    const owner = await database.open(postgres(database.url))
    await owner.write(batchOf({ reports: [makeReport()] }))
    await database.run('GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO writer')
    await database.open(store)
    const reports = [makeReport({ time: TIME + 1 })]
    await store.write(batchOf({ reports, position: positionOf(reports) }))
    expect(await database.count('reports_v3')).toBe(2)
    const refused = store.write(batchOf({ reports: [makeReport({ version: 4 })] }))
    expectFinal(
      await failureOf(refused),
      /table reports_v4 could not be prepared: permission denied/,
    )
  })

  test('with hypertables and without TimescaleDB', async () => {
    const store = postgres(world.server.url(), { hypertable: true })
    expectFinal(await failureOf(store.open(opening)), /CREATE EXTENSION timescaledb/)
    await store.close()
  })
})

describe('a table of another shape', () => {
  test.each([
    [
      'has a column of another type',
      'ALTER TABLE reports_v3 ALTER price TYPE double precision',
      /table reports_v3: column price is double precision, and numeric is needed: rename the table/,
    ],
    [
      'has a narrower column',
      'ALTER TABLE reports_v3 ALTER price TYPE numeric(38,18)',
      /column price is numeric\(38,18\), and numeric is needed/,
    ],
    [
      'lacks a column of the key',
      'ALTER TABLE reports_v3 DROP observed_at',
      /the key column observed_at \(timestamp with time zone\) is missing/,
    ],
    [
      'has another key',
      'ALTER TABLE reports_v3 DROP CONSTRAINT reports_v3_pkey, ADD PRIMARY KEY (feed_id)',
      /its unique keys are \(feed_id\), and \(feed_id, observed_at, observations_timestamp\) is needed/,
    ],
    [
      'has no key',
      'ALTER TABLE reports_v3 DROP CONSTRAINT reports_v3_pkey',
      /its unique keys are none, and .* ADD UNIQUE/,
    ],
    [
      'has a column that the sink can not fill',
      'ALTER TABLE reports_v3 ADD venue text NOT NULL',
      /column venue is NOT NULL.*DROP NOT NULL/,
    ],
    [
      'is a view',
      'ALTER TABLE reports_v3 RENAME TO kept; CREATE VIEW reports_v3 AS SELECT * FROM kept',
      /it is a view/,
    ],
    [
      'is of a later version',
      "UPDATE sluice_schema SET layout = 2 WHERE table_name = 'reports_v3'",
      /table reports_v3 has layout 2, and this version writes 1: install a later @sluice\/sinks/,
    ],
  ])('that %s', async (_name, change, message) => {
    const database = await world.create()
    const first = await database.open(postgres(database.url))
    await first.write(batchOf({ reports: [makeReport()] }))
    await database.run('DELETE FROM reports_v3')
    await database.run(change)
    const second = await database.open(postgres(database.url))
    const position = { [feedOf(3)]: TIME }
    const error = await failureOf(second.write(batchOf({ reports: [makeReport()], position })))
    expectFinal(error, message)
    expect(await second.position?.()).toEqual({})
  })

  test('that a default fills is written', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    await store.write(batchOf({ reports: [makeReport()] }))
    await database.run("ALTER TABLE reports_v3 ADD venue text NOT NULL DEFAULT 'x', ADD note text")
    const again = await database.open(postgres(database.url))
    await again.write(batchOf({ reports: [makeReport({ time: TIME + 1 })] }))
    expect(await database.count('reports_v3')).toBe(2)
  })

  test('gets the columns that it lacks', async () => {
    const database = await world.create()
    const without = await database.open(postgres(database.url, { raw: false }))
    await without.write(batchOf({ reports: [makeReport()] }))
    await database.run('ALTER TABLE reports_v3 DROP bid')
    const store = await database.open(postgres(database.url))
    await store.write(batchOf({ reports: [makeReport({ time: TIME + 1 })] }))
    expect(
      await database.run(
        'SELECT bid IS NULL AS bid, full_report IS NULL AS raw FROM reports_v3 ORDER BY observations_timestamp',
      ),
    ).toEqual([
      { bid: true, raw: true },
      { bid: false, raw: false },
    ])
  })

  test('dropped under a running sink, is made again by the next write', async () => {
    const database = await world.create()
    const store = await database.open(postgres(database.url))
    const batch = batchOf({ reports: [makeReport()], candles: [makeCandle()] })
    await store.write(batch)
    for (const sql of ['DROP TABLE reports_v3', 'ALTER TABLE reports_v3 DROP ask']) {
      await database.run(sql)
      expectRetryable(await failureOf(store.write(batch)), /does not exist/)
      await store.write(batch)
      expect(await database.count('reports_v3')).toBe(1)
    }
  })
})

describe('TimescaleDB', () => {
  /** No TimescaleDB: an entry in the list of extensions, and a function that notes its calls. */
  async function pretend(database: Database): Promise<void> {
    await database.run(`
      CREATE SCHEMA ts;
      CREATE TABLE ts.calls (relation text, divided_by text);
      CREATE FUNCTION ts.create_hypertable(relation regclass, time_column_name name) RETURNS record
        LANGUAGE sql AS $$ INSERT INTO ts.calls VALUES (relation::text, time_column_name) RETURNING calls $$;
      INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
        SELECT 999999, 'timescaledb', 10, oid, false, '2.0' FROM pg_namespace WHERE nspname = 'ts'`)
  }

  test.each(['auto', true] as const)('divides new tables of reports with %p', async hypertable => {
    const database = await world.create()
    await pretend(database)
    const store = await database.open(postgres(database.url, { hypertable }))
    const batch = batchOf({
      reports: [makeReport(), makeReport({ version: 4 })],
      candles: [makeCandle()],
    })
    await store.write(batch)
    await store.write(batch)
    expect(await database.run('SELECT * FROM ts.calls ORDER BY relation')).toEqual([
      { relation: 'reports_v3', divided_by: 'observed_at' },
      { relation: 'reports_v4', divided_by: 'observed_at' },
    ])
  })

  test('is left alone with false', async () => {
    const database = await world.create()
    await pretend(database)
    const store = await database.open(postgres(database.url, { hypertable: false }))
    await store.write(batchOf({ reports: [makeReport()] }))
    expect(await database.run('SELECT * FROM ts.calls')).toEqual([])
  })
})

describe('a failure that passes', () => {
  /** Writes a batch, which fails, mends the fault, and writes it again. */
  async function expectMended(
    store: SinkStore,
    database: Database,
    message: RegExp,
    mend: () => unknown,
  ): Promise<void> {
    const before = await database.count('reports_v3')
    const reports = makeReports(20, 5, TIME + 1000)
    const batch = batchOf({ reports, position: positionOf(reports) })
    expectRetryable(await failureOf(store.write(batch)), message)
    await mend()
    await store.write(batch)
    expect(await database.count('reports_v3')).toBe(before + 20)
    expect(await store.position?.()).toEqual(positionOf(reports))
  }

  async function openStore(options = {}): Promise<{ database: Database; store: SinkStore }> {
    const database = await world.create()
    const store = await database.open(postgres(database.url, options))
    await store.write(batchOf({ reports: [makeReport()] }))
    return { database, store }
  }

  test.each([
    ['a full disk', '53100'],
    ['no memory', '53200'],
    ['a deadlock', '40P01'],
    ['a serialization failure', '40001'],
    ['a server that became a standby', '25006'],
    ['a lock that is not free', '55P03'],
    ['a fault of the disk', '58030'],
  ])('of the server: %s', async (_name, code) => {
    const { database, store } = await openStore()
    await database.run(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '${code}'; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON reports_v3 EXECUTE FUNCTION fail()`)
    await expectMended(store, database, /not now/, () =>
      database.run('DROP TRIGGER fail ON reports_v3'),
    )
  })

  test('a broken constraint of the table ends the stream instead', async () => {
    const { database, store } = await openStore()
    await database.run('ALTER TABLE reports_v3 ADD CHECK (observations_timestamp < 1900000000)')
    const late = batchOf({ reports: [makeReport({ time: 1_900_000_000 })] })
    expectFinal(await failureOf(store.write(late)), /violates check constraint/)
    await database.run('ALTER TABLE reports_v3 ADD UNIQUE (observed_at)')
    const same = batchOf({ reports: [makeReport({ feedID: feedOf(3, 2) })] })
    // Without the key in ON CONFLICT, this report would be left out in silence.
    expectFinal(await failureOf(store.write(same)), /violates unique constraint/)
  })

  test('too many connections', async () => {
    const { database } = await openStore()
    await database.run("CREATE ROLE crowd LOGIN PASSWORD 'c' CONNECTION LIMIT 1")
    await database.run('GRANT ALL ON SCHEMA public TO crowd')
    await database.run('GRANT ALL ON ALL TABLES IN SCHEMA public TO crowd')
    const url = at(database.url, { username: 'crowd', password: 'c' })
    const other = await new Database(url).connect()
    const store = postgres(url)
    expectRetryable(await failureOf(store.open(opening)), /too many connections/)
    await other.end()
    await database.open(store)
  })

  test('a connection that the server ends, with and without a write on it', async () => {
    const { database, store } = await openStore()
    const end =
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
    await database.run(end)
    await sleep(50)
    // The loss was noticed, and the write takes a new connection.
    await store.write(batchOf({ reports: [makeReport({ time: TIME + 1 })] }))
    const blocker = await database.connect()
    await blocker.query('BEGIN; LOCK TABLE reports_v3 IN SHARE MODE')
    const ended = sleep(100).then(() => database.run(end))
    await expectMended(store, database, /terminating connection|terminated/, () => ended)
    await blocker.end().catch(() => undefined)
  })

  test('a lock that another session holds for too long', async () => {
    const { database, store } = await openStore({ timeout: 400 })
    const blocker = await database.connect()
    await blocker.query('BEGIN; LOCK TABLE reports_v3 IN SHARE MODE')
    await expectMended(store, database, /has not answered|statement timeout/, () => blocker.end())
  })

  test('a server process that stands still', async () => {
    const { database, store } = await openStore({ timeout: 400 })
    const [backend] = await database.run<{ pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    )
    const pid = backend?.pid ?? 0
    process.kill(pid, 'SIGSTOP')
    closing.push(() => process.kill(pid, 'SIGCONT'))
    // The connection that stands still is given up, and the next write takes another.
    await expectMended(store, database, /has not answered for 0.4 s/, () => undefined)
    process.kill(pid, 'SIGCONT')
    closing.pop()
    await sleep(200)
    expect(await database.count('reports_v3')).toBe(21)
  })

  test('a server that never answers a new connection', async () => {
    const port = await listen(() => undefined)
    const store = postgres(`postgres://a:b@127.0.0.1:${port}/c`, { timeout: 200 })
    expectRetryable(await failureOf(store.open(opening)), /timeout/)
    await store.close()
  })

  test.each(['SIGINT', 'SIGQUIT', 'SIGKILL'] as const)(
    'a server that is ended by %s and comes back',
    async signal => {
      const { database, store } = await openStore()
      await world.server.stop(signal)
      const reports = makeReports(20)
      const batch = batchOf({ reports, position: positionOf(reports) })
      expectRetryable(await failureOf(store.write(batch)), /terminat|ECONNREFUSED|ECONNRESET/)
      expectRetryable(await failureOf(store.write(batch)), /ECONNREFUSED/)
      expectRetryable(await failureOf(postgres(database.url).open(opening)), /ECONNREFUSED/)
      await world.server.start()
      await store.write(batch)
      expect(await database.count('reports_v3')).toBe(20)
    },
  )

  /**
   * A proxy to the server. Once it is told to, it loses the answer to a COMMIT and the connection
   * with it, or it falls silent before a COMMIT and keeps its side of the connection open.
   */
  async function startProxy(): Promise<{ port: number; loses?: 'answer' | 'commit' }> {
    const proxy: { port: number; loses?: 'answer' | 'commit' } = { port: 0 }
    proxy.port = await listen(client => {
      let lost: typeof proxy.loses
      const upstream = connect(world.server.port, '127.0.0.1')
      closing.push(() => upstream.destroy())
      upstream.on('error', () => client.destroy())
      client.on('close', () => {
        if (lost !== 'commit') setTimeout(() => upstream.destroy(), 100)
      })
      client.on('data', data => {
        if (data.includes('COMMIT')) lost ??= proxy.loses
        if (lost !== 'commit') upstream.write(data)
      })
      upstream.on('data', data => {
        if (lost === 'answer') client.destroy()
        else client.write(data)
      })
    })
    return proxy
  }

  test.each(['answer', 'commit'] as const)(
    'a lost %s: the batch that is repeated is stored once',
    async loses => {
      const database = await world.create()
      const proxy = await startProxy()
      const url = at(database.url, { port: String(proxy.port) })
      const store = await database.open(postgres(url, { timeout: 1500 }))
      const reports = makeReports(20, 5, TIME + 1000)
      const candles = [makeCandle()]
      const batch = batchOf({ reports, candles, position: positionOf(reports) })
      await store.write(batchOf({ reports: [makeReport()], candles }))
      proxy.loses = loses
      const lost = await failureOf(store.write(batch))
      expectRetryable(lost, loses === 'answer' ? /terminated unexpectedly/ : /has not answered/)
      expect(await database.count('reports_v3')).toBe(loses === 'answer' ? 21 : 1)
      delete proxy.loses
      // The rows of the lost transaction are locked until the server gives it up, too.
      for (let left = 3; ; left--) {
        try {
          await store.write(batch)
          break
        } catch (error) {
          if (left === 0) throw error
        }
      }
      expect(await database.count('reports_v3')).toBe(21)
      expect(await database.count('candles')).toBe(1)
      expect(await store.position?.()).toEqual(positionOf(reports))
    },
  )
})

describe('connections', () => {
  test('go over a socket of the file system', async () => {
    const { server } = world
    const encoded = postgres(server.socketURL())
    const named = postgres(
      `postgres://${server.user}:${encodeURIComponent(server.password)}@/postgres?host=${encodeURIComponent(server.folder)}&port=${server.port}`,
    )
    for (const store of [encoded, named]) {
      await store.open(opening)
      expect(store.name).toContain(server.folder)
      await store.close()
    }
  })

  test('go over TLS, whose certificate is checked', async () => {
    const { server } = world
    const { ca, issue } = await createCertificateAuthority()
    const { cert, key } = issue({ hosts: ['127.0.0.1', 'localhost'] })
    const files = { 'server.crt': cert, 'server.key': key, 'ca.pem': ca }
    for (const [name, text] of Object.entries(files)) {
      const path = join(server.data, name)
      writeFileSync(path, text, { mode: 0o600 })
      const { uid, gid } = server.owner
      if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid)
    }
    copyFileSync(join(server.data, 'ca.pem'), join(server.folder, 'ca.pem'))
    server.configure('ssl = on')
    await sleep(300)
    const url = (settings: string) => `${server.url()}?sslmode=verify-full${settings}`
    const trusting = postgres(url(`&sslrootcert=${join(server.folder, 'ca.pem')}`))
    await trusting.open(opening)
    await trusting.close()
    const other = postgres(url(''))
    expectFinal(await failureOf(other.open(opening)), /sslrootcert=FILE/)
    await other.close()
  })
})
