/** A connection, as far as it can be held back. */
export interface Pausable {
  /** False where `pause` does nothing. */
  readonly canPause: boolean
  pause(): void
  resume(): void
}

/** What holds back all connections of a stream at once, those to come included. */
export interface Valve {
  readonly isShut: boolean
  /** True while there is a connection that can't be paused. */
  readonly leaks: boolean
  /** Shuts it for somebody; it is open again when all who had it shut are done. */
  shut(by: object): void
  open(by: object): void
  /** Adds a connection, paused at once where the valve is shut; the function returned takes it away. */
  add(connection: Pausable): () => void
}

export function createValve(): Valve {
  const connections = new Set<Pausable>()
  const holders = new Set<object>()
  let isShut = false

  function turn(): void {
    const to = holders.size > 0
    if (isShut === to) return
    isShut = to
    for (const connection of [...connections]) {
      if (to) connection.pause()
      else connection.resume()
    }
  }

  return {
    get isShut() {
      return isShut
    },
    get leaks() {
      for (const { canPause } of connections) if (!canPause) return true
      return false
    },
    shut(by) {
      holders.add(by)
      turn()
    },
    open(by) {
      holders.delete(by)
      turn()
    },
    add(connection) {
      connections.add(connection)
      if (isShut) connection.pause()
      return () => void connections.delete(connection)
    },
  }
}
