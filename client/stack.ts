import { ValidationError } from '../core/errors.js'
import type { ClientScope } from '../core/scope.js'
import { checkPlugins, describeStack, engineHooks, type Stack } from '../core/stack.js'
import type { ReportVerifier } from '../report/verifier.js'
import type { Plugins } from './plugin.js'

const hooks: readonly string[] = [...engineHooks, 'report']

/** Checks the plugins of a client, and draws them. */
export function createStack(plugins: unknown, wire: string): { plugins: Plugins; stack: Stack } {
  checkPlugins(plugins, hooks)
  const given: Plugins = [...plugins]
  for (const [index, { name, decoders, verifier }] of given.entries()) {
    const place = `plugins[${index}] (${name})`
    if (verifier !== undefined && typeof verifier !== 'function')
      throw new ValidationError(`${place}: verifier must be a function`)
    if (decoders !== undefined && !Array.isArray(decoders))
      throw new ValidationError(`${place}: decoders must be an array of decoders`)
  }
  const stack = describeStack(given, {
    wire,
    up: 'report',
    hooks,
    brings: ({ decoders = [] }) => decoders.map(({ version }) => `V${version}`),
  })
  return { plugins: given, stack }
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
