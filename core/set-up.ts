import { ValidationError } from './errors.js'
import type { Hooks } from './hooks.js'
import type { Lifetime } from './lifetime.js'
import { type ClientScope, createServices, type Services } from './scope.js'
import { isThenable } from './thenable.js'

/** What a client's plugins are set up with. */
interface SetUpParts extends Pick<ClientScope, 'stack' | 'log' | 'listen'> {
  /** Of the client. */
  readonly life: Lifetime
}

/**
 * Runs the `setup` of every plugin, the one nearest to the caller first. Returns the services that they provide.
 */
export function setUp(
  plugins: readonly Pick<Hooks<never, never>, 'name' | 'setup'>[],
  { life, ...client }: SetUpParts,
): Services {
  const services = createServices()
  const scope: ClientScope = {
    kind: 'client',
    ...client,
    ...services,
    defer: life.defer,
    get signal() {
      return life.signal
    },
  }
  for (const plugin of plugins) {
    const result: unknown = plugin.setup?.(scope)
    if (!isThenable(result)) continue
    result.then(undefined, () => undefined)
    throw new ValidationError(`plugin ${plugin.name}: setup must not be async`)
  }
  return services
}
