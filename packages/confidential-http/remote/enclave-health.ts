import type { Log } from 'sluice/core'
import { Health, type Measure, type PermissionOptions, type Severity } from 'sluice/internal'
import { watchVault } from '../vault/probe.js'

/** A cause of an enclave. */
export type EnclaveCause =
  | 'thread-failed'
  | 'vault-unreadable'
  | 'holders-away'
  | 'holder-away'
  | 'audit-failing'
  | 'callers-refused'
  | 'overloaded'

const causes: Readonly<Record<EnclaveCause, Severity>> = {
  /** The thread that has the secrets could not be started. */
  'thread-failed': 'unready',
  /** The vault can't be read. */
  'vault-unreadable': 'unready',
  /** Too few holders of the vault can release their parts. */
  'holders-away': 'unready',
  /** Some holders of the vault can't release their parts, and the others suffice. */
  'holder-away': 'warning',
  /** The audit log can't be written, so no request is carried out. */
  'audit-failing': 'unready',
  /** The file of callers was refused, so callers that were removed from it are still accepted. */
  'callers-refused': 'warning',
  /** Requests were rejected because of load in the last ten seconds. */
  overloaded: 'warning',
}

/** What an enclave server looks at every second. */
export interface EnclaveState {
  /** Threads that have been started. */
  readonly threads: number
  /** Why the last thread could not start. */
  readonly threadFailure: string | undefined
  /** Why the file of callers was refused. */
  readonly callersRefused: string | undefined
  /** Requests that are being carried out. */
  readonly running: number
}

/** Milliseconds for which a rejection because of load is a problem. */
const OVERLOADED_FOR = 10_000

/** The health of an enclave server, and the counts of its answers. */
export class EnclaveHealth {
  readonly health: Health<EnclaveCause>
  /** Answers by outcome: `ok`, or the code of the error. */
  readonly #answers = new Map<string, number>()
  /** Requests that got no sealed answer, by HTTP status. */
  readonly #rejected = new Map<string, number>()
  #overloadedAt = Number.NEGATIVE_INFINITY
  readonly #ended = new AbortController()

  constructor(read: () => EnclaveState, log: Log) {
    this.health = new Health({
      ...{ service: 'enclave', causes, log },
      measures: this.#measures(read),
    })
  }

  /** Begins to look at the enclave, and at its vault. */
  start(
    read: () => EnclaveState,
    { vault, ...options }: PermissionOptions & { readonly vault: string },
  ): void {
    const { health } = this
    health.watch(() => {
      const { threadFailure, callersRefused } = read()
      const now = performance.now()
      health.set('thread-failed', threadFailure)
      health.set('callers-refused', callersRefused)
      health.set(
        'overloaded',
        now - this.#overloadedAt < OVERLOADED_FOR
          ? 'requests were rejected with 503, because there are too many'
          : undefined,
      )
    })
    const { signal } = this.#ended
    void watchVault(vault, options, signal, ({ failure, threshold, holders, away }) => {
      const here = `${holders - away.length} of ${holders} holders can release their parts, and it takes ${threshold}: ${away.join('; ')}`
      const areTooFew = holders - away.length < threshold
      health.set('vault-unreadable', failure)
      health.set('holders-away', failure === undefined && areTooFew ? here : undefined)
      health.set('holder-away', away.length > 0 && !areTooFew ? here : undefined)
    })
  }

  /** A request got a sealed answer. */
  answered(outcome: string): void {
    this.#answers.set(outcome, (this.#answers.get(outcome) ?? 0) + 1)
  }

  /** A request was rejected. */
  rejected(status: number): void {
    this.#rejected.set(`${status}`, (this.#rejected.get(`${status}`) ?? 0) + 1)
    if (status === 503) this.#overloadedAt = performance.now()
  }

  end(): void {
    this.#ended.abort()
    this.health.end()
  }

  #measures(read: () => EnclaveState): readonly Measure[] {
    return [
      {
        ...{ name: 'sluice.enclave.answers', kind: 'counter', unit: '{answer}' },
        description: 'Sealed answers to callers, by outcome: ok, or the code of an error',
        attribute: 'sluice.outcome',
        read: () => this.#answers,
      },
      {
        ...{ name: 'sluice.enclave.rejected', kind: 'counter', unit: '{request}' },
        description: 'Requests that were rejected, by HTTP status',
        attribute: 'http.response.status_code',
        read: () => this.#rejected,
      },
      {
        ...{ name: 'sluice.enclave.running', kind: 'gauge', unit: '{request}' },
        description: 'Requests that are being carried out',
        read: () => read().running,
      },
      {
        ...{ name: 'sluice.enclave.threads', kind: 'counter', unit: '{thread}' },
        description: 'Threads with the secrets that were started, the first included',
        read: () => read().threads,
      },
    ]
  }
}
