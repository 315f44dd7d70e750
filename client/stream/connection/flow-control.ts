/** A connection, as far as flow control uses it. */
export interface Pausable {
  /** False where `pause` does nothing. */
  readonly canPause: boolean
  pause(): void
  resume(): void
}

/** Pauses all connections of a stream at once, those to come included. */
export interface FlowControl {
  readonly isPaused: boolean
  /** True while there is a connection that can't be paused. */
  readonly hasUnpausable: boolean
  /** Pauses the connections for a holder; they resume when every holder has resumed them. */
  pause(by: object): void
  resume(by: object): void
  /** Adds a connection, paused at once while the others are. Returns a function that removes it. */
  add(connection: Pausable): () => void
}

export function createFlowControl(): FlowControl {
  const connections = new Set<Pausable>()
  const holders = new Set<object>()
  let isPaused = false

  function update(): void {
    const to = holders.size > 0
    if (isPaused === to) return
    isPaused = to
    for (const connection of [...connections]) {
      if (to) connection.pause()
      else connection.resume()
    }
  }

  return {
    get isPaused() {
      return isPaused
    },
    get hasUnpausable() {
      for (const { canPause } of connections) if (!canPause) return true
      return false
    },
    pause(by) {
      holders.add(by)
      update()
    },
    resume(by) {
      holders.delete(by)
      update()
    },
    add(connection) {
      connections.add(connection)
      if (isPaused) connection.pause()
      return () => void connections.delete(connection)
    },
  }
}
