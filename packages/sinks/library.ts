import { ValidationError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

// The libraries of the stores are optional peer dependencies. They are loaded when a store is
// opened, never by an import of this package. Each store names its own library alone, so that the
// types of one store need no other library.

/**
 * Returns a function that loads a library once. If the library can't be loaded, the function
 * rejects with an error that says what to install. The next call tries again.
 */
export function lazyLibrary<Module>(
  name: string,
  load: () => Promise<Module>,
): () => Promise<Module> {
  let loading: Promise<Module> | undefined
  return function loadOnce() {
    loading ??= load().catch(thrown => {
      loading = undefined
      throw new ValidationError(`the package ${name} could not be loaded: npm install ${name}`, {
        cause: foreignCause(thrown),
      })
    })
    return loading
  }
}
