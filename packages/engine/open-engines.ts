import { writeSync } from 'node:fs'
import { env } from 'node:process'
import { runInThisContext } from 'node:vm'

/** The variables by which test runners tell that they run: jest, vitest and node:test. */
const runners = ['JEST_WORKER_ID', 'VITEST', 'NODE_TEST_CONTEXT']

/** The file descriptor of stderr. */
const stderr = 2

/** Whether a test runner runs this process. */
export function isTestRun(): boolean {
  return runners.some(name => env[name] !== undefined)
}

/** The engines of a test run that are open. When the process ends, it names those on stderr. */
class OpenEngines {
  readonly #endpoints = new Set<string>()

  /** Adds an engine. The returned function removes it. */
  add(endpoint: string): () => void {
    if (this.#endpoints.size === 0) this.#process.on('exit', this.#report)
    this.#endpoints.add(endpoint)
    return () => {
      this.#endpoints.delete(endpoint)
      if (this.#endpoints.size === 0) this.#process.off('exit', this.#report)
    }
  }

  /** In jest, the global `process` is a copy, which never emits `exit`. */
  get #process(): NodeJS.Process {
    return runInThisContext('process')
  }

  readonly #report = (): void => {
    // jest --forceExit silences `process.stderr` before it exits.
    for (const endpoint of this.#endpoints)
      writeSync(
        stderr,
        `sluice: a data engine on ${endpoint} was left open: close it, or write \`await using engine = …\`\n`,
      )
  }
}

export const openEngines: OpenEngines = new OpenEngines()
