import type { MessagePort } from 'node:worker_threads'

/** What a request came to. */
export type Outcome = { readonly response: unknown } | { readonly error: Error }

/** One request that waits for its outcome. */
export interface Entry {
  outcome: Outcome | undefined
  /** Ends the listening to the caller's signal. */
  forget?: () => void
  /** Resolves what is awaited, if anything is. */
  resolve?: (outcome: Outcome) => void
}

/** The requests a thread owes an answer to. */
export interface Pending {
  add(): { readonly id: number; readonly entry: Entry }
  /** The first outcome of a request is the one that counts. */
  settle(id: number, outcome: Outcome): void
  settleAll(outcome: Outcome): void
  /** Waits for an outcome, and keeps the process alive for as long. */
  outcome(entry: Entry): Promise<Outcome>
}

/** Keeps `port` referenced while somebody awaits an answer, and no longer. */
export function createPending(port: MessagePort): Pending {
  const entries = new Map<number, Entry>()
  let lastID = 0
  let awaited = 0

  function settle(id: number, outcome: Outcome): void {
    const entry = entries.get(id)
    if (entry === undefined) return
    entries.delete(id)
    entry.outcome = outcome
    entry.forget?.()
    if (entry.resolve === undefined) return
    entry.resolve(outcome)
    if (--awaited === 0) port.unref()
  }

  return {
    add() {
      const id = ++lastID
      const entry: Entry = { outcome: undefined }
      entries.set(id, entry)
      return { id, entry }
    },
    settle,
    settleAll(outcome) {
      for (const id of [...entries.keys()]) settle(id, outcome)
    },
    async outcome(entry) {
      return (
        entry.outcome ??
        new Promise<Outcome>(resolve => {
          entry.resolve = resolve
          if (awaited++ === 0) port.ref()
        })
      )
    },
  }
}
