// Databases as a user looks at them: through a connection of the test's own.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterEach } from '@jest/globals'
import type { SinkBatch, SinkOpening } from 'sluice/plugins/sink'

/** A row: text for every value that is not a number, a boolean or null. */
export type Row = Readonly<Record<string, unknown>>

let folders: string[] = []
afterEach(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders = []
})

/** A new folder, which is removed after the test. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sink-'))
  folders.push(folder)
  return folder
}

/** Does something with a connection to a database, in this process. */
export async function withDatabase<Result>(
  path: string,
  work: (connection: DuckDBConnection) => Promise<Result>,
): Promise<Result> {
  const instance = await DuckDBInstance.fromCache(path)
  const connection = await instance.connect()
  try {
    return await work(connection)
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

/** Runs statements, and returns the rows of the last. */
export function query(path: string, ...statements: readonly string[]): Promise<readonly Row[]> {
  return withDatabase(path, async connection => {
    let rows: readonly Row[] = []
    for (const sql of statements)
      rows = (await connection.runAndReadAll(sql)).getRowObjectsJson() as readonly Row[]
    return rows
  })
}

/** What the sink gives a store that it opens. */
export function opening(lines: string[] = []): SinkOpening {
  const { signal } = new AbortController()
  return { log: { warn: line => void lines.push(line) }, signal }
}

/** A batch, of which a test gives parts. */
export function batchOf(parts: Partial<SinkBatch>): SinkBatch {
  const { reports = [] } = parts
  return {
    reports,
    receivedAt: reports.map(() => Date.now()),
    candles: [],
    position: undefined,
    ...parts,
  }
}
