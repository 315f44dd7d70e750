import type { Log } from 'sluice/core'
import type { OpenAuditLog } from '../audit/audit-log.js'

/** Milliseconds in which refusals of one caller for one reason become one record. */
const INTERVAL = 10_000

/** Records the requests of known callers that were refused before they reached the stack of the enclave. */
export class Refusals {
  readonly #records: Pick<OpenAuditLog, 'append'>
  readonly #log: Log
  /** How many since the last record, by caller and code. */
  readonly #counts = new Map<string, number>()
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>()

  constructor(records: Pick<OpenAuditLog, 'append'>, log: Log) {
    this.#records = records
    this.#log = log
  }

  /** The first is recorded at once; those of the next seconds together, as nothing waits for them. */
  add(caller: string, code: string): void {
    const key = `${caller} ${code}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    if (this.#timers.has(key)) return
    void this.#flush(key)
    const timer = setTimeout(() => {
      this.#timers.delete(key)
      if (this.#counts.has(key)) void this.#flush(key)
    }, INTERVAL)
    timer.unref()
    this.#timers.set(key, timer)
  }

  /** Records what was counted. */
  async end(): Promise<void> {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    await Promise.all([...this.#counts.keys()].map(key => this.#flush(key)))
  }

  async #flush(key: string): Promise<void> {
    const [caller, code] = key.split(' ')
    const count = this.#counts.get(key)
    this.#counts.delete(key)
    await this.#records
      .append({ type: 'refused', caller, code, count })
      .catch(error => this.#log.error?.(`refused requests are not recorded: ${error.message}`))
  }
}
