import { ValidationError } from '../../core/errors.js'
import type { Connection, ProxyConnection } from './connection.js'

/** One of the open connections by its number, or those a function picks. */
export type WhichConnections = number | ((connection: ProxyConnection) => boolean)

/** The connections of a proxy that are not closed yet. */
export interface Connections {
  /** Adds a connection, and applies the lasting faults to it. */
  readonly add: (connection: Connection) => void
  readonly remove: (connection: Connection) => void
  /** Those that are not being reset. */
  readonly open: () => Connection[]
  /** Applies a fault. Returns to how many connections. */
  readonly apply: (
    which: WhichConnections | undefined,
    fault: (connection: Connection) => void,
  ) => number
  /** Applies a fault that lasts until the returned function is called; without `which`, to all to come as well. */
  readonly applyLasting: (
    which: WhichConnections | undefined,
    fault: (connection: Connection) => () => void,
  ) => () => void
  readonly update: () => void
  readonly destroy: () => void
}

interface LastingFault {
  readonly fault: (connection: Connection) => () => void
  readonly releases: Map<Connection, () => void>
}

/** No connections yet. */
export function createConnections(): Connections {
  const all = new Set<Connection>()
  const lasting = new Set<LastingFault>()

  const open = (): Connection[] => [...all].filter(({ isOpen }) => isOpen)

  function find(which: WhichConnections | undefined): Connection[] {
    if (which === undefined) return open()
    if (typeof which === 'number') return open().filter(({ info }) => info().number === which)
    if (typeof which === 'function') return open().filter(({ info }) => which(info()))
    throw new ValidationError('which must be the number of a connection or a function')
  }

  return {
    add(connection) {
      all.add(connection)
      for (const { fault, releases } of lasting) releases.set(connection, fault(connection))
    },
    remove(connection) {
      all.delete(connection)
      for (const { releases } of lasting) releases.delete(connection)
    },
    open,
    apply(which, fault) {
      const found = find(which)
      for (const connection of found) fault(connection)
      return found.length
    },
    applyLasting(which, fault) {
      const releases = new Map(find(which).map(connection => [connection, fault(connection)]))
      const entry = { fault, releases }
      if (which === undefined) lasting.add(entry)
      return function release() {
        lasting.delete(entry)
        for (const releaseOne of releases.values()) releaseOne()
        releases.clear()
      }
    },
    update() {
      for (const connection of all) connection.update()
    },
    destroy() {
      for (const connection of all) connection.destroy()
    },
  }
}
