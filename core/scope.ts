import { ValidationError } from './errors.js'
import type { Log } from './log.js'

/** Every scope has a log and an end. */
export interface ScopeFacts {
  /** Writes to the log of the client. */
  readonly log: Log
  /** Aborted when the scope ends. */
  readonly signal: AbortSignal
  /** Runs `task` when the scope ends; the last deferred runs first. */
  defer(task: () => void): void
}

/** One plugin of a stack, as data. */
export interface StackEntry {
  /** The name of the plugin. */
  readonly name: string
  /** Its hooks, outermost first. */
  readonly hooks: readonly string[]
  /** Its other contributions, as short words. */
  readonly brings: readonly string[]
}

/** The client as a plugin's `setup` sees it, from its construction to its `close`. */
export interface ClientScope extends ScopeFacts {
  /** Tells it from the scopes of calls. */
  readonly kind: 'client'
  /** The plugins of the stack, nearest to the caller first. */
  readonly stack: readonly StackEntry[]
  /** Adds a listener to the log. One that throws changes nothing. */
  listen(listener: Log): void
  /** Provides a service to the client and its other plugins, under a key. Throws where there is one already. */
  provide<Service>(key: ServiceKey<Service>, service: Service): void
  /** The service that a plugin has provided under a key. */
  find<Service>(key: ServiceKey<Service>): Service | undefined
}

/** A key for a service of a type: the object itself is the key, its name is for errors. */
export interface ServiceKey<in out Service> {
  /** What the service is, for errors. */
  readonly name: string
  /** Carries the type only. */
  readonly type?: (service: Service) => Service
}

/** The services of a client. */
export type Services = Pick<ClientScope, 'provide' | 'find'>

/** Services, none at first. */
export function createServices(): Services {
  const services = new Map<object, unknown>()
  return {
    provide<Service>(key: ServiceKey<Service>, service: Service) {
      if (services.has(key))
        throw new ValidationError(`two plugins provide ${key.name}: a stack has one`)
      services.set(key, service)
    },
    find: <Service>(key: ServiceKey<Service>) => services.get(key) as Service | undefined,
  }
}
