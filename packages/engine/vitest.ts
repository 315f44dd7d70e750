import { fileURLToPath } from 'node:url'
import { type DataEngine, startDataEngine } from './data-engine.js'
import type { DataEngineOptions } from './options.js'

declare global {
  /**
   * The engine of a test file that runs in the environment `@sluice/engine/jest` or
   * `@sluice/engine/vitest`.
   */
  var engine: DataEngine
}

/** An environment of vitest. */
export interface VitestEnvironment {
  /** The environment's name. */
  readonly name: string
  /** How vite transforms the test files: for Node. */
  readonly viteEnvironment: 'ssr'
  /** Starts the engine. The returned `teardown` closes it. */
  setup(
    global: typeof globalThis,
    options: { readonly engine?: DataEngineOptions },
  ): Promise<{ teardown(): Promise<void> }>
}

/**
 * The path of this module, for `test.environment` of vitest's configuration. vitest takes a name
 * there for a package called `vitest-environment-NAME`.
 */
export const environment: string = fileURLToPath(import.meta.url)

/**
 * A vitest environment for tests on Node. It starts an engine before a test file, and closes it
 * after the file. The engine is the global `engine`. Its options are `environmentOptions.engine` of
 * vitest's configuration.
 */
const vitestEnvironment: VitestEnvironment = {
  name: 'sluice-engine',
  viteEnvironment: 'ssr',
  async setup(global, { engine: options }) {
    const engine = await startDataEngine(options)
    global.engine = engine
    return { teardown: () => engine.close() }
  },
}
export default vitestEnvironment
