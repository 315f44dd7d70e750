import { ValidationError } from 'sluice/core'
import type { Connection, ProxyConnection } from './connection.js'
import type { Fault } from './rules.js'

/** One of the open connections by its number, or those a function picks. */
export type WhichConnections = number | ((connection: ProxyConnection) => boolean)

/** The connections of a proxy that are not closed yet. */
export interface Connections {
  /** Adds a connection, and applies the lasting faults to it. */
  readonly add: (connection: Connection) => void
  readonly remove: (connection: Connection) => void
  readonly all: ReadonlySet<Connection>
  readonly open: () => Connection[]
  readonly apply: (which: WhichConnections | undefined, fault: Fault) => number
  /** Applies a fault until the returned function is called; without `which`, to connections to come as well. */
  readonly applyLasting: (which: WhichConnections | undefined, fault: Fault) => () => void
}

/** No connections yet. */
export function createConnections(): Connections {
  const all = new Set<Connection>()
  const lasting = new Map<Fault, Map<Connection, () => void>>()

  // A connection that is being reset takes a moment to close.
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
      for (const [fault, releases] of lasting) releases.set(connection, connection.apply(fault))
    },
    remove(connection) {
      all.delete(connection)
      for (const releases of lasting.values()) releases.delete(connection)
    },
    all,
    open,
    apply(which, fault) {
      const found = find(which)
      for (const connection of found) connection.apply(fault)
      return found.length
    },
    applyLasting(which, fault) {
      const releases = new Map(find(which).map(each => [each, each.apply(fault)]))
      if (which === undefined) lasting.set(fault, releases)
      return function release() {
        lasting.delete(fault)
        for (const releaseOne of releases.values()) releaseOne()
        releases.clear()
      }
    },
  }
}
