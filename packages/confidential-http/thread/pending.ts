import type { MessagePort } from 'node:worker_threads'

/** The outcome of a request. */
export type Outcome = { readonly response: unknown } | { readonly error: Error }

/** A request without an outcome yet. */
export interface Entry {
  outcome: Outcome | undefined
  /** Called when the enclave has connected to the API. */
  connected?: () => void
  /** Removes the listener from the caller's signal. */
  forget?: () => void
  /** Resolves the promise for the outcome, if somebody awaits it. */
  resolve?: (outcome: Outcome) => void
}

/** The open requests of a thread. */
export interface Pending {
  add(): { readonly id: number; readonly entry: Entry }
  /** Sets the outcome of a request, unless it has one. */
  complete(id: number, outcome: Outcome): void
  /** Passes on that the enclave has connected to the API. */
  connected(id: number): void
  completeAll(outcome: Outcome): void
  /** True if no request is open. */
  isIdle(): boolean
  /** Resolves when no request is open. */
  whenIdle(): Promise<void>
  /** Waits for a message of the thread and keeps the process alive until then. */
  keepAlive<Value>(message: Promise<Value>): Promise<Value>
  /** Waits for an outcome and keeps the process alive until then. */
  outcome(entry: Entry): Promise<Outcome>
}

/** Keeps `port` referenced only while somebody awaits an outcome. */
export function createPending(port: MessagePort): Pending {
  const entries = new Map<number, Entry>()
  let lastID = 0
  let awaited = 0
  let waiting: (() => void)[] = []

  function complete(id: number, outcome: Outcome): void {
    const entry = entries.get(id)
    if (entry === undefined) return
    entries.delete(id)
    entry.outcome = outcome
    entry.forget?.()
    if (entries.size === 0) {
      for (const resolve of waiting) resolve()
      waiting = []
    }
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
    complete,
    connected: id => entries.get(id)?.connected?.(),
    completeAll(outcome) {
      for (const id of [...entries.keys()]) complete(id, outcome)
    },
    isIdle: () => entries.size === 0,
    whenIdle: () =>
      new Promise(resolve => {
        if (entries.size === 0) resolve()
        else waiting.push(resolve)
      }),
    async keepAlive(message) {
      if (awaited++ === 0) port.ref()
      try {
        return await message
      } finally {
        if (--awaited === 0) port.unref()
      }
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
