import { isThenable } from './emitter.js'
import { ValidationError } from './errors.js'
import type { ClientScope, Plugins, ReportVerifier } from './types.js'

/** Runs the `setup` of every plugin, the one nearest you first. */
export function setUp(plugins: Plugins, scope: ClientScope): void {
  for (const plugin of plugins) {
    const result: unknown = plugin.setup?.(scope)
    if (!isThenable(result)) continue
    result.then(undefined, () => undefined)
    throw new ValidationError(`plugin ${plugin.name}: setup must not be async`)
  }
}

/** Makes the verifier of a stack, where a plugin has one. */
export function createVerifier(plugins: Plugins, scope: ClientScope): ReportVerifier | undefined {
  const [plugin, other] = plugins.filter(({ verifier }) => verifier !== undefined)
  if (plugin !== undefined && other !== undefined) {
    throw new ValidationError(
      `plugins ${plugin.name} and ${other.name} both have a verifier: a stack has one`,
    )
  }
  return plugin?.verifier?.(scope)
}
