import { asError, ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

/** Loads the function that a module exports by default. */
export async function loadFunction<Function>(field: string, url: string): Promise<Function> {
  const module = await load(field, url)
  // The default export of an imported CommonJS module is its `exports`.
  const { default: exported } = module
  const found = (exported as { default?: unknown } | undefined)?.default ?? exported
  if (typeof found === 'function') return found as Function
  throw new ValidationError(`${field} must be a module whose default export is a function`)
}

async function load(field: string, url: string): Promise<{ default?: unknown }> {
  try {
    return (await import(url)) as { default?: unknown }
  } catch (thrown) {
    const { code } = thrown as { code?: unknown }
    const why = typeof code === 'string' ? code : asError(thrown).name
    throw new ValidationError(`${field} could not be loaded: ${why}`, {
      cause: foreignCause(thrown),
    })
  }
}
