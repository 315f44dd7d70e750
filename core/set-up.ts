import { ValidationError } from './errors.js'
import type { Hooks } from './hooks.js'
import type { ClientScope } from './scope.js'
import { isThenable } from './thenable.js'

/** Runs the `setup` of every plugin, the one nearest to the caller first. */
export function setUp(
  plugins: readonly Pick<Hooks<never, never>, 'name' | 'setup'>[],
  scope: ClientScope,
): void {
  for (const plugin of plugins) {
    const result: unknown = plugin.setup?.(scope)
    if (!isThenable(result)) continue
    result.then(undefined, () => undefined)
    throw new ValidationError(`plugin ${plugin.name}: setup must not be async`)
  }
}
