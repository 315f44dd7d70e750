import { Socket } from 'node:net'
import type { Client, QueryResult } from 'pg'
import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'
import { lazyLibrary } from '../library.js'

/** Loads the library of Postgres. */
const loadPostgres = lazyLibrary('pg', () => import('pg'))

/** A value of a statement: a text, which the server converts, or a number. */
export type Parameter = string | number | null

/** Runs a statement of a transaction, and returns its rows. */
export type Run = <Row = unknown>(
  text: string,
  parameters?: readonly Parameter[],
) => Promise<readonly Row[]>

/** Milliseconds that a server gets to answer the end of a connection. */
const CLOSE_TIMEOUT = 1000

/**
 * A connection to a server. It runs one transaction at a time. A failure closes it, so that nothing
 * of the failed transaction can reach the next one.
 */
export class Connection {
  readonly #client: Client
  readonly #socket: Socket
  readonly #timeout: number
  #isClosed = false

  /** Connects. Milliseconds without an answer above `timeout` close the connection. */
  static async open(url: string, timeout: number): Promise<Connection> {
    const { Client } = await loadPostgres()
    // A socket of ours: the library has no way to destroy the connection to a server that hangs.
    const socket = new Socket()
    let client: Client
    try {
      client = new Client({
        connectionString: url,
        connectionTimeoutMillis: timeout,
        keepAlive: true,
        stream: () => socket,
      })
    } catch (thrown) {
      // A setting of the URL is wrong, or names a file that can't be read.
      const cause = foreignCause(thrown)
      throw new ValidationError(`url can't be used: ${cause.message}`, { cause })
    }
    const connection = new Connection(client, socket, timeout)
    try {
      await client.connect()
    } catch (thrown) {
      connection.destroy()
      throw thrown
    }
    return connection
  }

  private constructor(client: Client, socket: Socket, timeout: number) {
    this.#client = client
    this.#socket = socket
    this.#timeout = timeout
    const closed = (): void => {
      this.#isClosed = true
    }
    // Without a listener, the loss of an idle connection would end the process.
    client.on('error', closed)
    client.on('end', closed)
  }

  /** True if the connection can't be used any more. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Runs statements in one transaction. If one of them fails, closes the connection. */
  async transaction<Result>(statements: (run: Run) => Promise<Result>): Promise<Result> {
    const limit = Math.ceil(this.#timeout)
    try {
      // The server gives up, too. A transaction whose client is unreachable would otherwise hold
      // its locks for hours, and every repetition would wait for them.
      await this.#query(
        `BEGIN; SET LOCAL statement_timeout = ${limit}; SET LOCAL idle_in_transaction_session_timeout = ${limit}`,
      )
      const result = await statements(async (text, parameters) => {
        const { rows } = await this.#query(text, parameters)
        return rows
      })
      const { command } = await this.#query('COMMIT')
      if (command !== 'COMMIT') throw new Error(`the server answered ${command} to COMMIT`)
      return result
    } catch (thrown) {
      this.destroy()
      throw thrown
    }
  }

  /** Closes the connection. Resolves soon, even if the server does not answer. */
  async close(): Promise<void> {
    if (this.#isClosed) return this.destroy()
    const late = setTimeout(() => this.destroy(), CLOSE_TIMEOUT)
    try {
      await this.#client.end()
    } finally {
      clearTimeout(late)
      this.destroy()
    }
  }

  /** Closes the connection at once. */
  destroy(): void {
    this.#isClosed = true
    this.#socket.destroy()
  }

  async #query(text: string, parameters?: readonly Parameter[]): Promise<QueryResult> {
    let isLate = false
    const limit = setTimeout(() => {
      isLate = true
      this.destroy()
    }, this.#timeout)
    try {
      return await this.#client.query(text, parameters as Parameter[] | undefined)
    } catch (thrown) {
      if (!isLate) throw thrown
      throw new Error(`the server has not answered for ${this.#timeout / 1000} s`)
    } finally {
      clearTimeout(limit)
    }
  }
}
