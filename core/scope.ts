import { ValidationError } from './errors.js'
import type { Log } from './log.js'

/** The members of every scope. */
export interface ScopeFacts {
  /** The log of the client. */
  readonly log: Log
  /** Aborts when the scope ends. */
  readonly signal: AbortSignal
  /** Runs `task` when the scope ends. Tasks run in reverse order of `defer`. */
  defer(task: () => void): void
}

/** One plugin of a stack, as data. */
export interface StackEntry {
  /** The name of the plugin. */
  readonly name: string
  /** Its hooks, outermost first. */
  readonly hooks: readonly string[]
  /** Its other contributions, in short words. */
  readonly brings: readonly string[]
}

/**
 * Where a plugin may stand in a stack. A capability is a property of what has passed a plugin: a
 * word that all plugins share, whoever made them.
 */
export interface PluginPlace {
  /** The capabilities of what has passed the plugin. */
  readonly provides?: readonly string[]
  /** A plugin that provides one of these must stand below this plugin, nearer to the wire. */
  readonly below?: readonly string[]
  /** Why, for the error: words after the plugin's name and `which`. @default 'needs it there' */
  readonly because?: string
}

/** The client as a plugin's `setup` sees it. The scope ends when the client is closed. */
export interface ClientScope extends ScopeFacts {
  /** Distinguishes the scope from scopes of calls. */
  readonly kind: 'client'
  /** The plugins of the stack, nearest to the caller first. */
  readonly stack: readonly StackEntry[]
  /** Adds a listener to the log. Errors that it throws are ignored. */
  listen(listener: Log): void
  /**
   * Says where the plugin may stand, whatever its name is. Throws a ValidationError if a plugin
   * whose `setup` has run stands on the wrong side of it.
   */
  place(place: PluginPlace): void
  /** Whether a plugin whose `setup` has run provides a capability. */
  has(capability: string): boolean
  /** Provides a service to the client and its plugins. Throws if the key has a service already. */
  provide<Service>(key: ServiceKey<Service>, service: Service): void
  /** The service that a plugin has provided under the key. */
  find<Service>(key: ServiceKey<Service>): Service | undefined
}

/** Identifies a service and its type. The object itself is the key, unless it has an `id`. */
export interface ServiceKey<in out Service> {
  /** Describes the service in errors. */
  readonly name: string
  /**
   * A unique text. All keys with the same text are one key, so that two copies of a library share
   * the service (ES module beside CommonJS).
   */
  readonly id?: string
  /** Never set: it carries the type. */
  readonly type?: (service: Service) => Service
}

/** The services of a client. */
export type Services = Pick<ClientScope, 'provide' | 'find'>

/** Creates an empty set of services. */
export function createServices(): Services {
  const services = new Map<unknown, unknown>()
  return {
    provide<Service>(key: ServiceKey<Service>, service: Service) {
      if (services.has(key.id ?? key))
        throw new ValidationError(`two plugins provide ${key.name}: a stack has one`)
      services.set(key.id ?? key, service)
    },
    find: <Service>(key: ServiceKey<Service>) => services.get(key.id ?? key) as Service | undefined,
  }
}
