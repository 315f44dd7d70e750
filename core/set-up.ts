import { isThenable } from './emitter.js'
import { ValidationError } from './errors.js'
import type { ClientScope, Plugins } from './types.js'

/** Runs the `setup` of every plugin, the one nearest you first. */
export function setUp(plugins: Plugins, scope: ClientScope): void {
  for (const plugin of plugins) {
    const result: unknown = plugin.setup?.(scope)
    if (!isThenable(result)) continue
    result.then(undefined, () => undefined)
    throw new ValidationError(`plugin ${plugin.name}: setup must not be async`)
  }
}
