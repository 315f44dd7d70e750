/** A Postgres of the tests. */
export interface PostgresServer {
  readonly port: number
  readonly user: string
  readonly password: string
  /** The folder of the data. */
  readonly data: string
  /** The folder of the socket. */
  readonly folder: string
  /** What the server has written lately. */
  readonly output: string
  /** The user that files of the server must belong to; empty for the user of the tests. */
  readonly owner: { readonly uid?: number; readonly gid?: number }
  url(database?: string): string
  socketURL(database?: string): string
  /** Ends the server: SIGINT is `pg_ctl -m fast`, SIGQUIT is `-m immediate`. */
  stop(signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void>
  /** Starts it again, on the same port. */
  start(): Promise<void>
  /** Adds settings, and has the server read them. */
  configure(lines: string): void
  close(): Promise<void>
}

export function startPostgres(programs?: string): Promise<PostgresServer>
