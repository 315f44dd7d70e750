import { TestEnvironment } from 'jest-environment-node'
import { type DataEngine, startDataEngine } from './data-engine.js'
import type { DataEngineOptions } from './options.js'

declare global {
  /**
   * The engine of a test file that runs in the environment `@sluice/engine/jest` or
   * `@sluice/engine/vitest`.
   */
  var engine: DataEngine
}

/**
 * A jest environment for tests on Node. It starts an engine before a test file, and closes it after
 * the file. The engine is the global `engine`. Its options are `testEnvironmentOptions.engine` of
 * jest's configuration.
 */
export default class DataEngineEnvironment extends TestEnvironment {
  readonly #options: DataEngineOptions | undefined
  #engine: DataEngine | undefined

  /** Jest calls it with the configuration of the project and the context of the test file. */
  constructor(...given: ConstructorParameters<typeof TestEnvironment>) {
    super(...given)
    const { engine } = given[0].projectConfig.testEnvironmentOptions
    this.#options = engine as DataEngineOptions | undefined
  }

  /** Starts the engine. It goes by the clock of the test file, and so by jest's fake timers. */
  override async setup(): Promise<void> {
    await super.setup()
    this.#engine = await startDataEngine({ clock: this.global, ...this.#options })
    this.global.engine = this.#engine
  }

  /** Closes the engine. */
  override async teardown(): Promise<void> {
    await this.#engine?.close()
    await super.teardown()
  }
}
